package admin_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"novelgate/events/ledger"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// TestEraseBeforeTheSeal: nothing is erased that the ledger has not hashed. The request waits for it as long as a
// request may take, is then refused for the moment, and goes on when it is repeated.
func TestEraseBeforeTheSeal(t *testing.T) {
	t.Parallel()
	const comments = 3
	for name, c := range map[string]struct {
		projected bool // the table of posts shows the comments: the erasure is recorded behind it, and not before
		recorded  int  // erasures, while nothing is sealed
	}{
		"shown by the posts": {true, 0}, "found in the log": {false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.kit.Timeout = time.Second
			d.importPosts(t, "user-1", comments)
			if c.projected {
				d.follow(t)
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
					t.Errorf("nothing is sealed: %d %v %s", a.status, a.header, a.text)
				}
				if n := left(); n != comments {
					t.Errorf("%d of %d comments are left although nothing is sealed", n, comments)
				}
				if n := d.count(t, `SELECT count(*) FROM events WHERE event_type = 'author.erased.v1'`); n != c.recorded {
					t.Errorf("%d erasures are on record, want %d", n, c.recorded)
				}
			}

			d.seal(t)
			deadline := time.Now().Add(testdb.UntilSettled)
			a := d.send(t, d.ada, http.MethodDelete, erase, "", "")
			// somebody else's transaction holds the log up
			for a.status == http.StatusServiceUnavailable && time.Now().Before(deadline) {
				a = d.send(t, d.ada, http.MethodDelete, erase, "", "")
			}
			if a.status != http.StatusOK || left() != 0 {
				t.Fatalf("all is sealed: %d %s, %d comments are left", a.status, a.text, left())
			}
		})
	}
}

// seal runs the sealer of the ledger until the test ends.
func (d *desk) seal(t *testing.T) {
	t.Helper()
	pool, err := database.OpenLedger(t.Context(), d.staff.Pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := ledger.NewSealer(ledger.SealerConfig{
		Pool: pool, Pace: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { sealer.Run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended; pool.Close() })
}
