package history_test

import (
	"encoding/base64"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
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

// TestCursorsOfEvents: an erasure does not change the cursor after an event, and the last one is that of the end.
func TestCursorsOfEvents(t *testing.T) {
	t.Parallel()
	pool := open(t)
	erased := post("b")
	erased.personal = new(`{"uuid":"u"}`)
	store(t, pool, post("a"), erased)
	store(t, pool, post("c"))
	cursors := func() (list []history.Cursor) {
		for _, e := range testdb.Must(all(t.Context(), pool, history.Filter{}, 9, 9))(t) {
			list = append(list, e.Cursor())
		}
		return list
	}
	want := append(cursors()[:2], testdb.Must(newReader(t, pool).End(t.Context()))(t))
	testdb.Exec(t, pool, `ALTER TABLE events DISABLE TRIGGER ALL;
		UPDATE events SET personal = NULL, personal_digest = decode(repeat('00', 33), 'hex') WHERE personal IS NOT NULL;
		ALTER TABLE events ENABLE TRIGGER ALL`)
	if diff := cmp.Diff(want, cursors()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
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
	store(t, pool, post("0"))
	if _, err := history.At(t.Context(), pool, 1); !errors.Is(err, history.ErrNotFound) {
		t.Errorf("no such event: %v", err)
	}
	if e, err := history.At(t.Context(), pool, 0); err != nil || e.ID != "0" || e.LogIndex != 0 {
		t.Errorf("%+v, %v", e, err)
	}
}
