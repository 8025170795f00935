package history_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/readapi/history"
)

// world is a log with events for all filters.
type world struct {
	rng          *rand.Rand
	integrations []uuid.UUID
	novels       []uuid.UUID
	versions     map[uuid.UUID]int
	kinds        map[uuid.UUID]string
	streams      []uuid.UUID
	rows         []row
}

var start = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func newWorld(size int) *world {
	w := &world{rng: rand.New(rand.NewPCG(1, 2)), versions: map[uuid.UUID]int{}, kinds: map[uuid.UUID]string{}}
	for range 3 {
		w.integrations, w.novels = append(w.integrations, uuid.New()), append(w.novels, uuid.New())
	}
	for len(w.rows) < size {
		integration, novel := w.integrations[w.rng.IntN(3)], w.novels[w.rng.IntN(3)]
		source := "integrations/" + integration.String() + "/posts"
		switch w.rng.IntN(7) {
		case 0:
			w.add("integration", integration, "integration.enabled.v1", "staff/integrations", `{}`)
		case 1:
			w.add("novel", novel, "novel.updated.v1", source, `{"author":"x"}`)
		case 2:
			w.add("thread", uuid.NewSHA1(novel, []byte("thread")), "thread.opened.v1", source+"/thread",
				`{"novelId":"`+novel.String()+`"}`)
		case 3: // a decision about a comment names neither novel nor integration
			if stream, ok := w.some("post"); ok {
				w.add("post", stream, "post.hidden.v1", "staff/posts", `{"reason":"why"}`)
			}
		case 4:
			w.add("author", uuid.New(), "author.blocked.v1", "staff/authors", `{"integrationId":"`+integration.String()+`"}`)
		default:
			w.add("post", uuid.Nil, "post.imported.v1", source, `{"novelId":"`+novel.String()+`"}`)
		}
	}
	return w
}

func (w *world) some(kind string) (uuid.UUID, bool) {
	for range 10 {
		if len(w.streams) > 0 {
			if stream := w.streams[w.rng.IntN(len(w.streams))]; w.kinds[stream] == kind {
				return stream, true
			}
		}
	}
	return uuid.Nil, false
}

func (w *world) add(streamType string, stream uuid.UUID, kind, source, data string) {
	key := uuid.NewString()
	if kind == "post.imported.v1" {
		integration, _ := events.SplitSource(source)
		stream = events.PostID(integration.UUID, key)
	}
	if w.versions[stream] == 0 {
		w.streams, w.kinds[stream] = append(w.streams, stream), streamType
	}
	w.versions[stream]++
	metadata := events.Metadata{Actor: "someone"}
	if w.rng.IntN(2) == 0 {
		metadata.RequestID = fmt.Sprint("r", w.rng.IntN(5))
	}
	if w.rng.IntN(2) == 0 {
		metadata.Correlation = fmt.Sprint("r", w.rng.IntN(5))
	}
	// The clock is set back now and then.
	at := start.Add(time.Duration(len(w.rows))*time.Second - time.Duration(w.rng.IntN(20))*time.Second)
	w.rows = append(w.rows,
		row{streamType, stream, w.versions[stream], key, source, kind, data, nil, metadata, at})
}

// wanted reports whether a filter matches an event, given its index in the log.
func (w *world) wanted(f *history.Filter, index int) bool {
	r := w.rows[index]
	var data map[string]string
	if json.Unmarshal([]byte(r.data), &data) != nil {
		panic("the world is broken")
	}
	correlation := r.metadata.Correlation
	if correlation == "" {
		correlation = r.metadata.RequestID
	}
	integration, novel := f.Integration.UUID.String(), f.Novel.UUID.String()
	first := r
	for _, other := range w.rows {
		if other.stream == r.stream && other.version == 1 {
			first = other
		}
	}
	return (f.After == nil || index > int(*f.After)) &&
		(f.Before == nil || index < int(*f.Before)) &&
		(!f.Stream.Valid || r.stream == f.Stream.UUID) &&
		(f.StreamType == "" || r.streamType == f.StreamType) &&
		(f.Type == "" || r.kind == f.Type) &&
		(f.From == nil || !r.recordedAt.Before(*f.From)) &&
		(f.To == nil || r.recordedAt.Before(*f.To)) &&
		(f.Correlation == "" || correlation == f.Correlation) &&
		(!f.Integration.Valid || r.stream == f.Integration.UUID || strings.Contains(r.source, integration) ||
			data["integrationId"] == integration) &&
		(!f.Novel.Valid || r.stream == f.Novel.UUID || r.streamType != "author" && strings.Contains(first.data, novel))
}

// TestFiltersAgreeWithNaiveOnes compares the pages of filters with a scan of the log.
func TestFiltersAgreeWithNaiveOnes(t *testing.T) {
	t.Parallel()
	pool := open(t)
	w := newWorld(400)
	for from := 0; from < len(w.rows); {
		to := min(from+1+w.rng.IntN(5), len(w.rows))
		store(t, pool, w.rows[from:to]...)
		from = to
	}
	stored, err := all(t.Context(), pool, history.Filter{}, 1000, 1000)
	if err != nil || len(stored) != len(w.rows) {
		t.Fatalf("%d events, %v", len(stored), err)
	}
	for i := range stored {
		if e := stored[i]; e.LogIndex != int64(i) || e.ID != w.rows[i].id {
			t.Errorf("event %d has log index %d and id %s", i, e.LogIndex, e.ID)
		}
	}

	rapid.Check(t, func(rt *rapid.T) {
		f := w.draw(rt)
		got, err := all(t.Context(), pool, f, rapid.IntRange(1, 50).Draw(rt, "limit"),
			rapid.IntRange(20, 500).Draw(rt, "scan"))
		if f.After != nil && int(*f.After) >= len(w.rows) {
			if !errors.Is(err, history.ErrBeyond) {
				rt.Fatalf("behind the end of the log: %v", err)
			}
			return
		}
		if err != nil {
			rt.Fatal(err)
		}
		var want []history.Event
		for i := range w.rows {
			if w.wanted(&f, i) {
				want = append(want, stored[i])
			}
		}
		if diff := cmp.Diff(idsOf(want), idsOf(got)); diff != "" {
			rt.Fatalf("%+v (-want +got):\n%s", f, diff)
		}
	})
}

func (w *world) draw(rt *rapid.T) history.Filter {
	var f history.Filter
	wants := func(name string) bool { return rapid.IntRange(0, 3).Draw(rt, "wants "+name) == 0 }
	index := func(name string) *int64 {
		drawn := int64(rapid.IntRange(0, len(w.rows)+5).Draw(rt, name))
		return &drawn
	}
	moment := func(name string) time.Time {
		return start.Add(time.Duration(rapid.IntRange(-30, len(w.rows)).Draw(rt, name)) * time.Second)
	}
	if wants("after") {
		f.After = index("after")
	}
	if wants("before") {
		f.Before = index("before")
	}
	if wants("stream") {
		f.Stream = uuid.NullUUID{UUID: rapid.SampledFrom(append(w.streams[:9:9], uuid.New())).Draw(rt, "stream"), Valid: true}
	}
	if wants("stream type") {
		f.StreamType = rapid.SampledFrom([]string{"novel", "thread", "post", "author", "none"}).Draw(rt, "stream type")
	}
	if wants("type") {
		f.Type = rapid.SampledFrom([]string{"novel.updated.v1", "post.hidden.v1", "none"}).Draw(rt, "type")
	}
	if wants("integration") {
		f.Integration = uuid.NullUUID{UUID: rapid.SampledFrom(w.integrations).Draw(rt, "integration"), Valid: true}
	}
	if wants("novel") {
		f.Novel = uuid.NullUUID{UUID: rapid.SampledFrom(w.novels).Draw(rt, "novel"), Valid: true}
	}
	if wants("from") {
		f.From = new(moment("from"))
	}
	if wants("to") {
		f.To = new(moment("to"))
	}
	if wants("correlation") {
		f.Correlation = fmt.Sprint("r", rapid.IntRange(0, 5).Draw(rt, "correlation"))
	}
	return f
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
