package projections_test

import (
	"testing"
	"time"

	"novelgate/internal/testdb"
	"novelgate/projections"
)

// TestChunksUnderWayAreLeftAlone: a catch-up moves the checkpoint late. Meanwhile no other replica takes over; after
// the writer has ended, one does.
func TestChunksUnderWayAreLeftAlone(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	other := testdb.Begin(t, pool)
	testdb.Exec(t, other, `SELECT pg_advisory_xact_lock_shared(hashtextextended('novelgate catch up posts', 0))`)
	append1(t, pool, comments(seeded(1), "key", 20)...)
	run(t, projections.Config{
		Pool: pool, Logger: quiet(), Projections: []projections.Projection{projections.Posts{}, projections.Authors{}},
	})
	testdb.Eventually(t, "the other projection has caught up", caughtUp(t, pool, "authors"))
	time.Sleep(time.Second) // several checks of a standby
	if n := count(t, pool, "posts"); n > 0 {
		t.Errorf("%d posts were written beside a chunk", n)
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	testdb.Eventually(t, "posts has caught up", caughtUp(t, pool, "posts"))
}
