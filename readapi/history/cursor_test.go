package history_test

import (
	"encoding/base64"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/readapi/history"
)

// moveSQL adds events with these ids as if they had moved here from another cluster, behind those that have. $1: ids.
const moveSQL = `INSERT INTO events (transaction_id, position, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, metadata)
SELECT '2', n - 1 + (SELECT count(*) FROM events WHERE transaction_id = '2'), 'post', gen_random_uuid(), 1, id, 's', 'post.imported.v1', '{}', '{}'
FROM unnest($1::text[]) WITH ORDINALITY AS e (id, n)`

func move(t testing.TB, pool *pgxpool.Pool, ids ...string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), moveSQL, ids); err != nil {
		t.Fatal(err)
	}
}

// readBehind reads a page behind a cursor, which travels as text.
func readBehind(t testing.TB, pool *pgxpool.Pool, cursor string, limit int) (history.Page, error) {
	t.Helper()
	settle(t, pool)
	reader, err := history.NewReader(t.Context(), pool, history.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	horizon, err := reader.Horizon(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	after, err := history.ParseCursor(cursor)
	if err != nil {
		t.Fatal(err)
	}
	return reader.Page(t.Context(), after, horizon, limit)
}

// wantIDs wants a page of these events, and returns the cursor behind it.
func wantIDs(t testing.TB, pool *pgxpool.Pool, cursor string, limit int, want ...string) string {
	t.Helper()
	page, err := readBehind(t, pool, cursor, limit)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i := range page.Events {
		ids = append(ids, page.Events[i].ID)
	}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Errorf("behind %q (-want +got)\n%s", cursor, diff)
	}
	return page.Next.String()
}

// TestCursorsAndMoves: a cursor that a move has made meaningless is refused, whatever transaction ids the new cluster has come to;
// one among the events that had moved before goes on to count.
func TestCursorsAndMoves(t *testing.T) {
	t.Parallel()
	pool := open(t)
	store(t, pool, post("c"), post("d"))
	beforeTheMove := wantIDs(t, pool, "", 1, "c")
	endBeforeTheMove := wantIDs(t, pool, "", 9, "c", "d")

	move(t, pool, "a", "b")
	for _, cursor := range []string{beforeTheMove, endBeforeTheMove} {
		if page, err := readBehind(t, pool, cursor, 9); !errors.Is(err, history.ErrElsewhere) {
			t.Errorf("%s: %+v, %v, want ErrElsewhere", cursor, page, err)
		}
	}
	amongTheMoved := wantIDs(t, pool, "", 1, "a")
	behindThem := wantIDs(t, pool, amongTheMoved, 2, "b", "c")
	wantIDs(t, pool, behindThem, 9, "d")

	move(t, pool, "b2")
	wantIDs(t, pool, amongTheMoved, 9, "b", "b2", "c", "d")
	if _, err := readBehind(t, pool, behindThem, 9); !errors.Is(err, history.ErrElsewhere) {
		t.Errorf("%v, want ErrElsewhere", err)
	}
}

func TestCursorAhead(t *testing.T) {
	t.Parallel()
	pool := open(t)
	store(t, pool, post("a"))
	ahead := base64.RawURLEncoding.EncodeToString([]byte("4000000000000/0"))
	if page, err := readBehind(t, pool, ahead, 9); !errors.Is(err, history.ErrElsewhere) {
		t.Errorf("%+v, %v, want ErrElsewhere", page, err)
	}
}

func TestParseCursor(t *testing.T) {
	t.Parallel()
	for text, sound := range map[string]bool{
		"7/0": true, "7/3/5": true, "2/3": true, "18446744073709551615/2147483647/2147483647": true,
		"7": false, "7/": false, "/7": false, "7/0/0": false, "7/0/": false, "7/0/x": false, "7/0/-1": false, "7/0/1/1": false, "2/3/5": false,
		"+7/0": false, "07/0": false, "7/2147483648": false, "7/0/2147483648": false, "0/0": false,
	} {
		encoded := base64.RawURLEncoding.EncodeToString([]byte(text))
		cursor, err := history.ParseCursor(encoded)
		if sound && (err != nil || cursor.String() != encoded) || !sound && !errors.Is(err, history.ErrCursor) {
			t.Errorf("%s: %q, %v", text, cursor, err)
		}
	}
}
