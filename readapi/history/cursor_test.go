package history_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/readapi/history"
)

// move moves all events like a rebase.
func move(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	tamper(t, pool, `UPDATE events AS e SET transaction_id = '2', position = m.position
		FROM (SELECT stream_id, stream_version, row_number() OVER (ORDER BY transaction_id, position) - 1 AS position
		    FROM events) AS m
		WHERE e.stream_id = m.stream_id AND e.stream_version = m.stream_version`)
}

// readBehind reads a page after a cursor, once everything is settled.
func readBehind(t testing.TB, pool *pgxpool.Pool, cursor string, limit int) (history.Page, error) {
	t.Helper()
	settle(t, pool)
	return pageOf(t.Context(), pool, history.Filter{}, cursor, limit, 0)
}

// wantElsewhere checks that a cursor is refused.
func wantElsewhere(t testing.TB, pool *pgxpool.Pool, name, cursor string) {
	t.Helper()
	if page, err := readBehind(t, pool, cursor, 9); !errors.Is(err, history.ErrCursorMismatch) {
		t.Errorf("behind %s: %d events, %v, want ErrCursorMismatch", name, len(page.Events), err)
	}
}

// wantIDs checks the events of a page, and returns the cursor after it.
func wantIDs(t testing.TB, pool *pgxpool.Pool, cursor string, limit int, want ...string) string {
	t.Helper()
	page := testdb.Must(readBehind(t, pool, cursor, limit))(t)
	var ids []string
	for i := range page.Events {
		ids = append(ids, page.Events[i].ID)
	}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Errorf("behind %q (-want +got)\n%s", cursor, diff)
	}
	return page.Next.String()
}

// TestCursorsAndMoves: a cursor that a move has invalidated is refused, even if the new cluster has used its
// transaction id; a cursor of events that had moved before stays valid.
func TestCursorsAndMoves(t *testing.T) {
	t.Parallel()
	pool := open(t)
	store(t, pool, post("a"), post("b"))
	first := wantIDs(t, pool, "", 1, "a")
	transaction := read(t, pool)[0].Position.TransactionID
	end := wantIDs(t, pool, first, 9, "b")

	move(t, pool)
	storeAt(t, pool, transaction, post("c"))
	store(t, pool, post("d"))
	for _, cursor := range []string{first, end} {
		wantElsewhere(t, pool, cursor, cursor)
	}
	amongTheMoved := wantIDs(t, pool, "", 1, "a")
	behindThem := wantIDs(t, pool, amongTheMoved, 2, "b", "c")
	wantIDs(t, pool, behindThem, 9, "d")

	move(t, pool)
	store(t, pool, post("e"))
	wantIDs(t, pool, amongTheMoved, 9, "b", "c", "d", "e")
	wantElsewhere(t, pool, "the end before the move", behindThem)
}

// TestCursorsKnowWhatIsInFrontOfThem: an event that was committed after another one, but has the earlier position, is
// lost in a failover to a standby that only has the other one. A reader of both is refused, whether they were sealed or
// not.
func TestCursorsKnowWhatIsInFrontOfThem(t *testing.T) {
	t.Parallel()
	for name, sealed := range map[string]bool{"sealed": true, "not sealed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := open(t)
			store(t, pool, post("a"))
			seal(t, pool)
			committedLast := testdb.Begin(t, pool)
			if err := insert(t.Context(), committedLast, []row{post("lost")}); err != nil {
				t.Fatal(err)
			}
			c := post("c")
			store(t, pool, post("b"), c)
			if err := committedLast.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if sealed {
				seal(t, pool)
			}
			kept := map[string]string{"in vain": lastExamined(t, pool, wantIDs(t, pool, "", 2, "a", "lost"))}
			list := read(t, pool)
			for i := range list {
				kept[list[i].ID] = list[i].Cursor().String()
			}
			kept["end"] = wantIDs(t, pool, "", 9, "a", "lost", "b", "c")
			stream := uuid.NullUUID{UUID: c.stream, Valid: true}
			if page := readFiltered(t, pool, history.Filter{Stream: stream}); len(page) == 1 {
				kept["stream"] = page[0].Cursor().String()
			}
			if page := readFiltered(t, pool, history.Filter{After: new(int64(0))}); len(page) == 3 {
				kept["after"] = page[2].Cursor().String()
			}
			if kept["stream"] != kept["c"] || kept["after"] != kept["c"] {
				t.Errorf("cursors behind one event: %v", kept)
			}
			uncounted := withoutCount(t, kept["c"])
			for _, cursor := range []string{kept["c"], uncounted} {
				wantIDs(t, pool, cursor, 9)
			}

			tamper(t, pool, `DELETE FROM events WHERE event_id = 'lost'`)
			if sealed { // another event of the new primary
				const sql = `ALTER TABLE ledger_seals DISABLE TRIGGER ALL; DELETE FROM ledger_seals;
					ALTER TABLE ledger_seals ENABLE TRIGGER ALL`
				testdb.Exec(t, pool, sql)
				seal(t, pool)
			}
			for _, name := range []string{"lost", "b", "c", "end", "in vain"} {
				wantElsewhere(t, pool, name, kept[name])
			}
			wantIDs(t, pool, kept["a"], 9, "b", "c")
			wantIDs(t, pool, uncounted, 9) // too many events were not sealed: the loss cannot be detected
		})
	}
}

func readFiltered(t testing.TB, pool *pgxpool.Pool, filter history.Filter) []history.Event {
	t.Helper()
	return testdb.Must(all(t.Context(), pool, filter, 100, 100))(t)
}

// withoutCount returns a cursor as it is while too many events are not sealed.
func withoutCount(t testing.TB, cursor string) string {
	t.Helper()
	text := testdb.Must(base64.RawURLEncoding.DecodeString(cursor))(t)
	place, sum, _ := bytes.Cut(text, []byte("#"))
	numbers := bytes.Split(place, []byte("/"))
	if len(numbers) != 3 {
		t.Fatalf("cursor without a count: %q", text)
	}
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s/%s#%s", numbers[0], numbers[1], sum))
}

// read returns all events.
func read(t testing.TB, pool *pgxpool.Pool) []history.Event {
	t.Helper()
	settle(t, pool)
	return testdb.Must(all(t.Context(), pool, history.Filter{}, 100, 100))(t)
}

// storeAt appends an event with an earlier transaction id, as happens in a log that was set back.
func storeAt(t testing.TB, pool *pgxpool.Pool, transaction uint64, r row) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		err := insert(t.Context(), tx, []row{r})
		tamper(t, tx, `UPDATE events SET transaction_id = $1 WHERE event_id = $2`, transaction, r.id)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// tamper changes the log with its triggers switched off.
func tamper(t testing.TB, tx testdb.Execer, sql string, args ...any) {
	t.Helper()
	testdb.Exec(t, tx, `ALTER TABLE events DISABLE TRIGGER ALL`)
	testdb.Exec(t, tx, sql, args...)
	testdb.Exec(t, tx, `ALTER TABLE events ENABLE TRIGGER ALL`)
}

// TestCursorsOfALogThatWasSetBack reads a log to its end, restores a backup from before its last events, and appends
// others with the same transaction ids.
func TestCursorsOfALogThatWasSetBack(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	pool := openURL(t, url)
	store(t, pool, post("a"))
	store(t, pool, post("b"))
	pool.Close()
	restored := openURL(t, testdb.Copy(t, url))
	pool = openURL(t, url)
	again := post("again")
	for _, lost := range []row{post("c"), post("d"), again} {
		store(t, pool, lost)
	}
	list := read(t, pool)
	if len(list) != 5 {
		t.Fatalf("%d events", len(list))
	}
	kept := map[string]string{}
	for i := range list {
		kept[list[i].ID] = list[i].Cursor().String()
	}
	kept["end"] = wantIDs(t, pool, "", 9, "a", "b", "c", "d", "again")
	reader := newReader(t, pool)
	horizon := testdb.Must(reader.Horizon(t.Context()))(t)
	kept["now"] = horizon.Cursor().String()
	kept["examined in vain"] = lastExamined(t, pool, kept["b"])

	again.recordedAt = again.recordedAt.Add(time.Microsecond) // the partner has repeated the command
	storeAt(t, restored, list[2].Position.TransactionID, post("x"))
	storeAt(t, restored, list[4].Position.TransactionID, again)
	store(t, restored, post("y"))
	wantIDs(t, restored, kept["a"], 9, "b", "x", "again", "y")
	wantIDs(t, restored, kept["b"], 9, "x", "again", "y")
	for _, name := range []string{"c", "d", "again", "end", "now", "examined in vain"} {
		wantElsewhere(t, restored, name, kept[name])
	}
}

// lastExamined returns the cursor of a page that has examined one event and found none.
func lastExamined(t testing.TB, pool *pgxpool.Pool, cursor string) string {
	t.Helper()
	page, err := pageOf(t.Context(), pool, history.Filter{Type: "none"}, cursor, 1, 1)
	if err != nil || !page.More {
		t.Fatalf("%+v, %v", page, err)
	}
	return page.Next.String()
}

// TestCursorsOfEvents: the cursor after an event is the same whether Go or PostgreSQL computes it, and erasure and
// moves do not change its digest.
func TestCursorsOfEvents(t *testing.T) {
	t.Parallel()
	pool := open(t)
	later := post("a")
	later.version, later.kind, later.metadata.Batch = 2, "post.hidden.v1", uuid.New()
	list := []row{post("a"), later, post("ключ\n\\ 🔑")}
	for i, sub := range []time.Duration{time.Microsecond, 120 * time.Millisecond, 999_999 * time.Microsecond} {
		r := post(fmt.Sprint(i))
		r.recordedAt, r.personal = start.AddDate(100*i, 0, 0).Add(sub), new(`{"uuid":"u"}`)
		list = append(list, r)
	}
	store(t, pool, list...)
	seal(t, pool)
	store(t, pool, post("not sealed"))

	var digests []string
	check := func(name string) {
		t.Helper()
		var got, want, found []string
		for _, e := range read(t, pool) {
			got, found = append(got, e.Cursor().String()), append(found, e.Cursor().Event())
		}
		rows := testdb.Must(pool.Query(t.Context(), "SELECT "+history.CursorSQL+
			" FROM events AS e ORDER BY e.transaction_id, e.position"))(t)
		var c history.Cursor
		if _, err := pgx.ForEachRow(rows, c.Fields(), func() error {
			want = append(want, c.String())
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" || len(got) != len(list)+1 {
			t.Errorf("%s (-SQL +Go):\n%s", name, diff)
		}
		if digests == nil {
			digests = found
		}
		if diff := cmp.Diff(digests, found); diff != "" {
			t.Errorf("%s (-before +after):\n%s", name, diff)
		}
	}
	check("stored")
	tamper(t, pool, `UPDATE events SET personal = NULL, personal_digest = decode(repeat('00', 33), 'hex')
		WHERE personal IS NOT NULL`)
	check("erased")
	const unsealSQL = `ALTER TABLE ledger_seals DISABLE TRIGGER ALL; DELETE FROM ledger_seals;
		ALTER TABLE ledger_seals ENABLE TRIGGER ALL`
	testdb.Exec(t, pool, unsealSQL)
	move(t, pool)
	seal(t, pool)
	check("moved")
}

// TestLogIndexes: sealed events have their log index, and no others have one, after any cursor and with any filter.
func TestLogIndexes(t *testing.T) {
	t.Parallel()
	pool := open(t)
	store(t, pool, post("0"), post("1"))
	store(t, pool, post("2"), post("3"))
	seal(t, pool)
	store(t, pool, post("none"), post("none either"))
	list := read(t, pool)
	stream := uuid.NullUUID{UUID: list[3].StreamID, Valid: true}
	second := list[1].Cursor().String()
	for _, cursor := range []string{"", second, withoutCount(t, second)} {
		for name, filter := range map[string]history.Filter{
			"none": {}, "type": {Type: "post.imported.v1"}, "stream": {Stream: stream},
			"after": {After: new(int64(0))}, "before": {Before: new(int64(4))},
		} {
			page, err := pageOf(t.Context(), pool, filter, cursor, 9, 0)
			if err != nil || len(page.Events) == 0 {
				t.Fatalf("%q, %s: %d events, %v", cursor, name, len(page.Events), err)
			}
			for _, e := range page.Events {
				got := "none"
				if e.LogIndex != nil {
					got = fmt.Sprint(*e.LogIndex)
				}
				if want, _, _ := strings.Cut(e.ID, " "); got != want {
					t.Errorf("%q, %s: %s has log index %s", cursor, name, e.ID, got)
				}
			}
		}
	}
}

func TestCursorAhead(t *testing.T) {
	t.Parallel()
	pool := open(t)
	store(t, pool, post("a"))
	wantElsewhere(t, pool, "all", base64.RawURLEncoding.EncodeToString([]byte("4000000000000/0#12345678")))
}

func TestParseCursor(t *testing.T) {
	t.Parallel()
	for text, sound := range map[string]bool{
		"7/0#12345678": true, "2/3#12345678": true, "7/0#########": true, "7/0/5#12345678": true,
		"18446744073709551615/2147483647/9223372036854775807#12345678": true,
		"18446744073709551616/0#12345678":                              false, "7/2147483648#12345678": false,
		"7/0/9223372036854775808#12345678": false,
		"7/0":                              false, "7/0/5": false, "7/0#": false,
		"7/0#1234567": false, "7/0#123456789": false,
		"7#12345678": false, "7/#12345678": false, "/7#12345678": false, "7/0/#12345678": false, "7/0/x#12345678": false,
		"7/0/05#12345678": false, "7/0/0#12345678": false, "7/0/-5#12345678": false, "7/0/5/6#12345678": false,
		"+7/0#12345678": false, "07/0#12345678": false, "0/0#12345678": false,
	} {
		encoded := base64.RawURLEncoding.EncodeToString([]byte(text))
		cursor, err := history.ParseCursor(encoded)
		if sound && (err != nil || cursor.String() != encoded) || !sound && !errors.Is(err, history.ErrCursor) {
			t.Errorf("%s: %q, %v", text, cursor, err)
		}
	}
}

func TestPoints(t *testing.T) {
	t.Parallel()
	pool := open(t)
	store(t, pool, post("0"), post("1"))
	store(t, pool, post("2"))
	seal(t, pool)
	settle(t, pool)
	stored := testdb.Must(all(t.Context(), pool, history.Filter{}, 10, 10))(t)
	one, two := uuid.New(), uuid.New()
	at := func(i int, stream uuid.UUID, second int) events.Recorded {
		return events.Recorded{
			Position: stored[i].Position, ID: stored[i].ID, StreamID: stream,
			RecordedAt: start.Add(time.Duration(second) * time.Second),
		}
	}
	for name, c := range map[string]struct {
		point string
		list  []events.Recorded
		want  []string
	}{
		"a log index counts itself": {
			"1", []events.Recorded{at(0, one, 0), at(1, one, 9), at(2, one, 1)}, []string{"0", "1"},
		},
		"a time counts itself": {
			"2026-01-02T12:00:05Z", []events.Recorded{at(0, one, 4), at(1, one, 5), at(2, one, 6)}, []string{"0", "1"},
		},
		"another zone": {
			"2026-01-02T13:00:05+01:00", []events.Recorded{at(0, one, 5), at(1, one, 6)}, []string{"0"},
		},
		"a clock that was set back": {
			"2026-01-02T12:00:05Z", []events.Recorded{at(0, one, 0), at(1, one, 9), at(2, one, 1)}, []string{"0"},
		},
		"streams are on their own": {
			"2026-01-02T12:00:05Z", []events.Recorded{at(0, one, 0), at(1, two, 9), at(2, one, 1)}, []string{"0", "2"},
		},
		"before everything that is": {"2020-01-01T00:00:00Z", []events.Recorded{at(0, one, 0)}, nil},
		"behind everything that is": {
			"2", []events.Recorded{at(0, one, 0), at(1, one, 0), at(2, two, 0)}, []string{"0", "1", "2"},
		},
		"fractions of a second count": {
			"2026-01-02T12:00:04.999999Z", []events.Recorded{at(0, one, 4), at(1, one, 5)}, []string{"0"},
		},
	} {
		point, err := history.ParsePoint(t.Context(), pool, c.point)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for _, r := range point.Until(c.list) {
			got = append(got, r.ID)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if _, err := history.ParsePoint(t.Context(), pool, "3"); !errors.Is(err, history.ErrBeyond) {
		t.Errorf("a log index that nobody has: %v", err)
	}
	for _, text := range []string{"", "yesterday", "2026-01-02", "2026-01-02T12:00:00", "-1"} {
		if _, err := history.ParsePoint(t.Context(), pool, text); err == nil {
			t.Errorf("%q is a point", text)
		}
	}
}

func TestWhichPointIsLater(t *testing.T) {
	t.Parallel()
	pool := open(t)
	store(t, pool, post("0"), post("1"))
	seal(t, pool)
	settle(t, pool)
	for _, c := range []struct {
		point, other string
		want         bool
	}{
		{"1", "0", true},
		{"0", "1", false},
		{"1", "1", false},
		{"2026-01-02T00:00:00Z", "2026-01-01T23:59:59Z", true},
		{"2026-01-02T00:00:00+01:00", "2026-01-01T23:59:59Z", false},
		{"1", "2020-01-01T00:00:00Z", false},
		{"2999-01-01T00:00:00Z", "0", false}, // two kinds
	} {
		point := testdb.Must(history.ParsePoint(t.Context(), pool, c.point))(t)
		other := testdb.Must(history.ParsePoint(t.Context(), pool, c.other))(t)
		if got := point.After(other); got != c.want {
			t.Errorf("%s after %s: %v", c.point, c.other, got)
		}
	}
}

func TestSingleEvents(t *testing.T) {
	t.Parallel()
	pool := open(t)
	stored := post("0")
	store(t, pool, stored)
	if _, err := history.At(t.Context(), pool, 0); !errors.Is(err, history.ErrNotFound) {
		t.Errorf("not sealed: %v", err)
	}
	seal(t, pool)
	settle(t, pool)
	if e, err := history.At(t.Context(), pool, 0); err != nil || e.ID != "0" || *e.LogIndex != 0 {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := history.Version(t.Context(), pool, stored.stream, 1); err != nil || e.ID != "0" {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := history.Version(t.Context(), pool, stored.stream, 2); !errors.Is(err, history.ErrNotFound) {
		t.Errorf("no such version: %v", err)
	}
}
