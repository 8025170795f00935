package history_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
	"novelgate/readapi/history"
)

// TestFilters reads a log with every filter, in pages of several sizes.
func TestFilters(t *testing.T) {
	t.Parallel()
	pool := open(t)
	start := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	second := func(n int) *time.Time { return new(start.Add(time.Duration(n) * time.Second)) }
	one, two, clock, watch := uuid.New(), uuid.New(), uuid.New(), uuid.New()
	thread := uuid.NewSHA1(clock, []byte("thread"))
	imported := func(key string, integration, novel uuid.UUID, metadata events.Metadata) row {
		return row{
			streamType: "post", stream: events.PostID(integration, key), version: 1, id: key,
			source: events.PostsSource(integration), kind: "post.imported.v1", data: `{"novelId":"` + novel.String() + `"}`,
			metadata: metadata,
		}
	}
	first := imported("3", one, clock, events.Metadata{RequestID: "r"})
	author := func(id string, of uuid.UUID) row {
		return row{
			streamType: "author", stream: uuid.New(), version: 1, id: id, source: "staff/authors", kind: "author.blocked.v1",
			data: `{"integrationId":"` + of.String() + `"}`,
		}
	}
	rows := []row{
		{
			streamType: "integration", stream: one, version: 1, id: "0", source: "staff/integrations",
			kind: "integration.enabled.v1", data: `{}`,
		},
		{
			streamType: "novel", stream: clock, version: 1, id: "1", source: events.PostsSource(one), kind: "novel.updated.v1",
			data: `{"author":"x"}`,
		},
		{
			streamType: "thread", stream: thread, version: 1, id: "2", source: events.PostsSource(one) + "/thread",
			kind: "thread.opened.v1", data: `{"novelId":"` + clock.String() + `"}`,
		},
		first,
		imported("4", two, watch, events.Metadata{RequestID: "r", Correlation: "c"}),
		{ // names neither novel nor integration
			streamType: "post", stream: first.stream, version: 2, id: "5", source: "staff/posts", kind: "post.hidden.v1",
			data: `{"reason":"why"}`, metadata: events.Metadata{Correlation: "c", Actor: "staff:ada"},
		},
		author("6", one),
		author("7", two),
	}
	for i := range rows {
		rows[i].recordedAt = *second(i)
	}
	rows[7].recordedAt = start // the clock was set back
	store(t, pool, rows...)
	index := func(n int64) *int64 { return &n }
	id := func(id uuid.UUID) uuid.NullUUID { return uuid.NullUUID{UUID: id, Valid: true} }
	for _, c := range []struct {
		filter history.Filter
		want   string // ids
	}{
		{history.Filter{}, "0 1 2 3 4 5 6 7"},
		{history.Filter{After: index(3)}, "4 5 6 7"},
		{history.Filter{After: index(7)}, ""},
		{history.Filter{Before: index(3)}, "0 1 2"},
		{history.Filter{After: index(1), Before: index(4)}, "2 3"},
		{history.Filter{Before: index(99), StreamType: "author"}, "6 7"},
		{history.Filter{Stream: id(first.stream)}, "3 5"},
		{history.Filter{Stream: id(first.stream), After: index(3)}, "5"},
		{history.Filter{Stream: id(first.stream), Before: index(4)}, "3"},
		{history.Filter{Stream: id(first.stream), Type: "post.hidden.v1"}, "5"},
		{history.Filter{Stream: id(first.stream), StreamType: "novel"}, ""},
		{history.Filter{Stream: id(uuid.New())}, ""},
		{history.Filter{StreamType: "post"}, "3 4 5"},
		{history.Filter{Type: "post.imported.v1"}, "3 4"},
		{history.Filter{Type: "none"}, ""},
		{history.Filter{Integration: id(one)}, "0 1 2 3 5 6"},
		{history.Filter{Actor: "staff:ada"}, "5"},
		{history.Filter{ActorID: id(two)}, "4"},
		{history.Filter{Actor: "staff:ada", ActorID: id(two)}, "4 5"},
		{history.Filter{Integration: id(two)}, "4 7"},
		{history.Filter{Novel: id(clock)}, "1 2 3 5"},
		{history.Filter{Novel: id(watch)}, "4"},
		{history.Filter{Novel: id(clock), Integration: id(one), After: index(1)}, "2 3 5"},
		{history.Filter{From: second(5)}, "5 6"},
		{history.Filter{To: second(2)}, "0 1 7"},
		{history.Filter{From: second(1), To: second(3), StreamType: "thread"}, "2"},
		{history.Filter{Correlation: "r"}, "3"},
		{history.Filter{Correlation: "c"}, "4 5"},
	} {
		for _, limit := range []int{1, 2, 50} {
			for _, scanned := range []int{1, 3, 500} {
				got, err := all(t.Context(), pool, c.filter, limit, scanned)
				if diff := cmp.Diff(strings.Fields(c.want), idsOf(got)); diff != "" || err != nil {
					t.Errorf("%+v, limit %d of %d: %v (-want +got):\n%s", c.filter, limit, scanned, err, diff)
				}
				want := strings.Fields(c.want)
				slices.Reverse(want)
				want = want[:min(limit, len(want))]
				reader := testdb.Must(history.NewReader(t.Context(), pool, c.filter))(t)
				reader.SetMaxScanned(scanned)
				got = nil
				err = reader.Newest(t.Context(), limit, func(page []history.Event) error {
					got = append(got, page...)
					return nil
				})
				if diff := cmp.Diff(want, idsOf(got), cmpopts.EquateEmpty()); diff != "" || err != nil {
					t.Errorf("newest of %+v, limit %d of %d: %v (-want +got):\n%s", c.filter, limit, scanned, err, diff)
				}
			}
		}
	}
	if _, err := all(t.Context(), pool, history.Filter{After: index(8)}, 9, 9); !errors.Is(err, history.ErrBeyond) {
		t.Errorf("behind the end of the log: %v", err)
	}
}

// TestPageOfLargeEvents: a page of large events ends early, with a cursor from which the next one continues.
func TestPageOfLargeEvents(t *testing.T) {
	t.Parallel()
	pool := open(t)
	const n, size, most = 400, 31_000, 1 << 20
	rows, want := make([]row, n), make([]string, n)
	for i := range rows {
		rows[i] = post(fmt.Sprint("large-", i))
		text := `{"content":"` + strings.Repeat("x", size) + `"}`
		rows[i].personal = &text
		want[i] = rows[i].id
	}
	store(t, pool, rows...)
	var got []string
	for after, more := "", true; more; {
		page := testdb.Must(pageOf(t.Context(), pool, history.Filter{}, after, 1000, 0))(t)
		held := 0
		for i := range page.Events {
			got = append(got, page.Events[i].ID)
			held += len(page.Events[i].Personal)
		}
		if held > most {
			t.Errorf("a page of %d events holds %d bytes, at most %d are wanted", len(page.Events), held, most)
		}
		after, more = page.Next.String(), page.More
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%d events on the pages, or not in order; want %d", len(got), n)
	}
}

// TestNamedFilters: filters name integrations, novels and staff as people do, and an unknown name is refused.
func TestNamedFilters(t *testing.T) {
	t.Parallel()
	pool := open(t)
	id, novel := uuid.New(), uuid.New()
	testdb.Exec(t, pool, `INSERT INTO integrations
VALUES ($1, 'Fan Site', 'fan site', true, true, true, true, 60, 60, 60, false, now())`, id)
	testdb.Exec(t, pool, `INSERT INTO title_lookup (folded_title, novel_id, slug, title, state, stream_version, details)
VALUES ('emma', $1, 'emma', 'Emma', 'approved', 1, '{}')`, novel)
	for _, name := range []string{"Ada", "ada", "Grace"} {
		testdb.Exec(t, pool, `INSERT INTO person_keys (key_id, key_hash, prefix, person_id, role, name, issued_at)
VALUES (gen_random_uuid(), sha256($1::text::bytea), 'ngs_', gen_random_uuid(), 'staff', $1, now())`, name)
	}
	valid := func(id uuid.UUID) uuid.NullUUID { return uuid.NullUUID{UUID: id, Valid: true} }
	day, next := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		named   history.Named
		want    history.Filter
		refused string
	}{
		{
			history.Named{Integration: "FAN site", Novel: "Emma"},
			history.Filter{Integration: valid(id), Novel: valid(novel)},
			"",
		},
		{history.Named{Novel: id.String()}, history.Filter{Novel: valid(id)}, ""},
		{history.Named{Integration: "Nobody"}, history.Filter{}, "integration"},
		{history.Named{Novel: "Nothing"}, history.Filter{}, "novel"},
		{history.Named{Actor: "staff:ada"}, history.Filter{Actor: "staff:ada"}, ""},
		{history.Named{Actor: "ada"}, history.Filter{Actor: "staff:ada"}, ""},
		{history.Named{Actor: "Ada"}, history.Filter{Actor: "staff:Ada"}, ""},
		{history.Named{Actor: "GRACE"}, history.Filter{Actor: "staff:Grace"}, ""},
		{history.Named{Actor: "staff:grace"}, history.Filter{Actor: "staff:Grace"}, ""},
		{history.Named{Actor: "staff:cli:root"}, history.Filter{Actor: "staff:cli:root"}, ""},
		{history.Named{Actor: "Nobody"}, history.Filter{}, "actor"},
		{history.Named{Actor: "staff:Nobody"}, history.Filter{}, "actor"},
		{history.Named{Actor: "fan site"}, history.Filter{ActorID: valid(id)}, ""},
		{history.Named{Actor: "integration:" + id.String()}, history.Filter{ActorID: valid(id)}, ""},
		{history.Named{Actor: "integration:Nobody"}, history.Filter{}, "actor"},
		{history.Named{Day: "2026-11-28"}, history.Filter{From: &day, To: &next}, ""},
		{history.Named{Day: "yesterday"}, history.Filter{}, "day"},
	} {
		var got history.Filter
		err := c.named.Resolve(t.Context(), pool, &got)
		unknown, _ := errors.AsType[*history.UnknownError](err)
		switch {
		case c.refused != "":
			if unknown == nil || unknown.Parameter != c.refused {
				t.Errorf("%+v: %v, want a refusal of %s", c.named, err, c.refused)
			}
		case err != nil:
			t.Errorf("%+v: %v", c.named, err)
		default:
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%+v (-want +got)\n%s", c.named, diff)
			}
		}
	}
	called, err := history.Names(t.Context(), pool, []history.Event{
		{Row: eventlog.Row{StreamID: novel, Metadata: events.Metadata{Actor: "integration:" + id.String()}}},
		{Row: eventlog.Row{StreamID: uuid.New(), Data: []byte(`{}`)}},
	})
	if diff := cmp.Diff(map[uuid.UUID]string{novel: "Emma", id: "Fan Site"}, called); err != nil || diff != "" {
		t.Errorf("names: %v (-want +got)\n%s", err, diff)
	}
}

// TestIndexesAt: a moment leads to the first event that was recorded then or later, without a search of the log.
func TestIndexesAt(t *testing.T) {
	t.Parallel()
	pool := open(t)
	at := func(second int) time.Time { return time.Date(2026, 1, 2, 12, 0, second, 0, time.UTC) }
	if got := testdb.Must(history.IndexesAt(t.Context(), pool, at(0)))(t); !slices.Equal(got, []int64{0}) {
		t.Errorf("of an empty log: %v", got)
	}
	var rows []row
	for i, second := range []int{1, 2, 2, 2, 5, 6, 9} {
		r := post(fmt.Sprint("event-", i))
		r.recordedAt = at(second)
		rows = append(rows, r)
	}
	store(t, pool, rows...)
	got := testdb.Must(history.IndexesAt(t.Context(), pool, at(0), at(2), at(3), at(5), at(9), at(10)))(t)
	if want := []int64{0, 1, 4, 4, 6, 7}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
