package admin_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// TestEraseBehindAnOlderTransaction: a transaction that began before the erasure may hold more comments. The request
// waits for it as long as a request may take, is then refused for the moment, and goes on when it is repeated.
func TestEraseBehindAnOlderTransaction(t *testing.T) {
	t.Parallel()
	const comments = 3
	for name, c := range map[string]struct {
		projected bool // the table of posts shows the comments: they are erased before the erasure is recorded
		left      int  // comments, while the transaction runs
	}{
		"shown by the posts": {true, 0}, "found in the log": {false, comments},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.kit.Timeout = time.Second
			d.importPosts(t, "user-1", comments)
			if c.projected {
				d.follow(t)
			}
			older, err := d.staff.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = older.Rollback(context.Background()) }()
			if _, err := older.Exec(t.Context(), `SELECT pg_current_xact_id()`); err != nil {
				t.Fatal(err)
			}
			erase := d.author("user-1") + "?reason=asked"
			left := func() int {
				return d.count(t,
					`SELECT count(*) FROM events WHERE event_type = 'post.imported.v1' AND personal ->> 'uuid' = 'user-1'`)
			}
			for range 2 {
				a := d.send(t, d.ada, http.MethodDelete, erase, "", "")
				if a.status != http.StatusServiceUnavailable || a.code() != "unavailable" || a.body["retryable"] != true ||
					a.header.Get("Retry-After") == "" {
					t.Errorf("an older transaction runs: %d %v %s", a.status, a.header, a.text)
				}
				if n := left(); n != c.left {
					t.Errorf("%d comments are left while an older transaction runs, want %d", n, c.left)
				}
				if n := d.count(t, `SELECT count(*) FROM events WHERE event_type = 'author.erased.v1'`); n != 1 {
					t.Errorf("%d erasures are on record", n)
				}
			}

			if err := older.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			deadline := time.Now().Add(testdb.UntilSettled)
			a := d.send(t, d.ada, http.MethodDelete, erase, "", "")
			// somebody else's transaction holds the log up
			for a.status == http.StatusServiceUnavailable && time.Now().Before(deadline) {
				a = d.send(t, d.ada, http.MethodDelete, erase, "", "")
			}
			if a.status != http.StatusOK || left() != 0 {
				t.Fatalf("all is settled: %d %s, %d comments are left", a.status, a.text, left())
			}
		})
	}
}
