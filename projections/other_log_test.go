package projections_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// TestEventsOfAnotherLogAreNotApplied: events of one log are not applied to the tables of another.
func TestEventsOfAnotherLogAreNotApplied(t *testing.T) {
	t.Parallel()
	for name, longer := range map[string]bool{"shorter": false, "longer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t)
			random := seeded(1)
			append1(t, pool, comments(random, "first", 10)...)
			append1(t, pool, comments(random, "lost", 10)...)
			lost := make(chan struct{})
			// The events are read, and the transaction has not begun.
			p := &dawdling{counting: newCounting(t, pool, "hooked"), wait: func() {
				testdb.Lose(t, pool, `event_id LIKE 'lost%'`)
				if longer {
					append1(t, pool, comments(random, "new", 15)...)
				}
				close(lost)
			}}
			run(t, projections.Config{Pool: pool, Projections: []projections.Projection{p}})
			<-lost
			testdb.Eventually(t, "caught up", caughtUp(t, pool, "hooked"))
			p.assertAll(t, pool)
		})
	}
}

// TestFollowerGoesOnInAnotherLog: a follower whose position is after the end of the new log continues from the
// checkpoint there at once.
func TestFollowerGoesOnInAnotherLog(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	p, wake := newCounting(t, pool, "moved"), eventlog.NewWake()
	random := seeded(1)
	append1(t, pool, comments(random, "kept", 3)...)
	run(t, projections.Config{Pool: pool, Projections: []projections.Projection{p}, Wake: wake})
	testdb.Eventually(t, "caught up", caughtUp(t, pool, "moved"))
	before := status(t, pool, "moved")
	append1(t, pool, comments(random, "lost", 3)...)
	wake.Signal()
	testdb.Eventually(t, "caught up", caughtUp(t, pool, "moved"))

	// Log, table and checkpoint are set back together, and the log goes on with other events.
	tx := testdb.Begin(t, pool)
	testdb.Exec(t, tx, `UPDATE projections SET position = $1`, before.Position)
	testdb.Exec(t, tx, `DELETE FROM applied_moved WHERE log_index >= $1`, before.Position)
	testdb.Lose(t, tx, `event_id LIKE 'lost%'`)
	var again pgx.Batch
	testdb.NoError(t, eventlog.Queue(&again, comments(random, "new", 5)))
	testdb.NoError(t, tx.SendBatch(t.Context(), &again).Close())
	testdb.NoError(t, tx.Commit(t.Context()))
	wake.Signal()
	testdb.Eventually(t, "caught up", caughtUp(t, pool, "moved"))
	p.assertAll(t, pool)
}
