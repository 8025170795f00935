package history_test

import (
	"encoding/base64"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/testdb"
	"novelgate/readapi/history"
)

// wantMismatch checks that a cursor is refused.
func wantMismatch(t testing.TB, pool *pgxpool.Pool, name, cursor string) {
	t.Helper()
	if page, err := pageOf(t.Context(), pool, history.Filter{}, cursor, 9, 0); !errors.Is(err,
		history.ErrCursorMismatch) {
		t.Errorf("after %s: %v, %v, want ErrCursorMismatch", name, idsOf(page.Events), err)
	}
}

// wantIDs checks the events of a page, and returns the cursor after it.
func wantIDs(t testing.TB, pool *pgxpool.Pool, cursor string, limit int, want ...string) string {
	t.Helper()
	page := testdb.Must(pageOf(t.Context(), pool, history.Filter{}, cursor, limit, 0))(t)
	if diff := cmp.Diff(append([]string{}, want...), idsOf(page.Events)); diff != "" {
		t.Errorf("after %q (-want +got)\n%s", cursor, diff)
	}
	return page.Next.String()
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

// TestCursorsOfALogThatWasSetBack: cursors after lost events are refused, also when the log has other events at their
// positions, even of the same commands. All others stay valid.
func TestCursorsOfALogThatWasSetBack(t *testing.T) {
	t.Parallel()
	pool := open(t)
	for _, id := range []string{"a", "b", "c", "d", "again"} {
		store(t, pool, post(id))
	}
	kept := map[string]string{}
	for _, e := range testdb.Must(all(t.Context(), pool, history.Filter{}, 9, 9))(t) {
		kept[e.ID] = e.Cursor().String()
	}
	kept["the page"] = wantIDs(t, pool, "", 9, "a", "b", "c", "d", "again")
	kept["a page without a match"] = lastExamined(t, pool, kept["b"])
	lost := []string{"c", "d", "again", "the page", "a page without a match"}

	testdb.Lose(t, pool, "event_id = 'c'")
	for _, name := range lost {
		wantMismatch(t, pool, name, kept[name])
	}
	wantIDs(t, pool, kept["b"], 9)
	for _, id := range []string{"x", "y", "again", "z"} {
		store(t, pool, post(id))
	}
	for _, name := range lost {
		wantMismatch(t, pool, name, kept[name])
	}
	wantIDs(t, pool, kept["a"], 9, "b", "x", "y", "again", "z")
	wantIDs(t, pool, kept["b"], 9, "x", "y", "again", "z")
}

// TestCursorsOfEvents: the cursor after an event is the same whether it is read with the event, with CursorSQL, or as
// the end of the log, and an erasure does not change it.
func TestCursorsOfEvents(t *testing.T) {
	t.Parallel()
	pool := open(t)
	erased := post("b")
	erased.personal = new(`{"uuid":"u"}`)
	store(t, pool, post("a"), erased)
	store(t, pool, post("c"))
	const eraseSQL = `ALTER TABLE events DISABLE TRIGGER ALL;
		UPDATE events SET personal = NULL, personal_digest = decode(repeat('00', 33), 'hex') WHERE personal IS NOT NULL;
		ALTER TABLE events ENABLE TRIGGER ALL`
	var got []string
	for _, e := range testdb.Must(all(t.Context(), pool, history.Filter{}, 9, 9))(t) {
		got = append(got, e.Cursor().String())
	}
	testdb.Exec(t, pool, eraseSQL)
	var want []string
	var c history.Cursor
	rows := testdb.Must(pool.Query(t.Context(), "SELECT "+history.CursorSQL+" FROM events AS e ORDER BY e.log_index"))(t)
	if _, err := pgx.ForEachRow(rows, c.Fields(), func() error {
		want = append(want, c.String())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) != 3 {
		t.Errorf("(-SQL +Go):\n%s", diff)
	}
	var end history.Cursor
	var batch pgx.Batch
	end.QueueEnd(&batch)
	c.QueueCheck(&batch)
	if err := pool.SendBatch(t.Context(), &batch).Close(); err != nil || end != c {
		t.Errorf("the end is %v instead of %v, %v", end, c, err)
	}
}

// TestCursorsAreDistinct: cursors of the same log index in different batches have different names, and so have cursors
// within a batch.
func TestCursorsAreDistinct(t *testing.T) {
	t.Parallel()
	a := history.Cursor{Position: 7, Batch: uuid.New()}
	next, other := a, a
	next.Position++
	other.Batch = uuid.New()
	if a.Event() == next.Event() || a.Event() == other.Event() || len(a.Event()) != 16 {
		t.Errorf("%s, %s, %s", a.Event(), next.Event(), other.Event())
	}
}

func TestCursorAhead(t *testing.T) {
	t.Parallel()
	pool := open(t)
	ahead := history.Cursor{Position: 1 << 40, Batch: uuid.New()}.String()
	wantMismatch(t, pool, "everything, in an empty log", ahead)
	store(t, pool, post("a"))
	wantMismatch(t, pool, "everything", ahead)
}

func TestParseCursor(t *testing.T) {
	t.Parallel()
	const batch = "0123456789abcdef"
	for text, sound := range map[string]bool{
		"1#" + batch: true, "7#################": true, "9223372036854775807#" + batch: true,
		"9223372036854775808#" + batch: false, "0#" + batch: false, "-1#" + batch: false, "+1#" + batch: false,
		"07#" + batch: false, "#" + batch: false, "x#" + batch: false, "7": false, "7#": false, "7" + batch: false,
		"7#" + batch[1:]: false, "7#" + batch + "0": false, "7/0#" + batch: false, "7/0/5#12345678": false, "\x00": false,
	} {
		encoded := base64.RawURLEncoding.EncodeToString([]byte(text))
		cursor, err := history.ParseCursor(encoded)
		if sound && (err != nil || cursor.String() != encoded) || !sound && !errors.Is(err, history.ErrCursor) {
			t.Errorf("%s: %q, %v", text, cursor, err)
		}
	}
	sound := history.Cursor{Position: 7, Batch: uuid.New()}.String()
	for _, text := range []string{"%", "x", sound + "=", sound + "\n", " " + sound, sound[1:]} {
		if c, err := history.ParseCursor(text); !errors.Is(err, history.ErrCursor) {
			t.Errorf("%q is %v, %v", text, c, err)
		}
	}
}

func TestSingleEvents(t *testing.T) {
	t.Parallel()
	pool := open(t)
	stored := post("0")
	store(t, pool, stored)
	if _, err := history.At(t.Context(), pool, 1); !errors.Is(err, history.ErrNotFound) {
		t.Errorf("no such event: %v", err)
	}
	if e, err := history.At(t.Context(), pool, 0); err != nil || e.ID != "0" || e.LogIndex != 0 {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := history.Version(t.Context(), pool, stored.stream, 1); err != nil || e.ID != "0" {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := history.Version(t.Context(), pool, stored.stream, 2); !errors.Is(err, history.ErrNotFound) {
		t.Errorf("no such version: %v", err)
	}
}
