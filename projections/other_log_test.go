package projections_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// hooked is a counting projection that calls a hook once, before it applies its first events: they are read, and the
// transaction has not begun.
type hooked struct {
	counting
	hook func()
}

func (h hooked) Apply(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	if len(batch) > 0 {
		h.hook()
	}
	return h.counting.Apply(ctx, tx, batch)
}

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
			p, lost := hooked{counting: newCounting(t, pool, "hooked")}, make(chan struct{})
			p.hook = func() {
				p.hook = func() {}
				testdb.Lose(t, pool, `event_id LIKE 'lost%'`)
				if longer {
					append1(t, pool, comments(random, "new", 15)...)
				}
				close(lost)
			}
			run(t, projections.Config{Pool: pool, Projections: []projections.Projection{&p}})
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
	if err := eventlog.Queue(&again, comments(random, "new", 5)); err != nil {
		t.Fatal(err)
	}
	if err := tx.SendBatch(t.Context(), &again).Close(); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wake.Signal()
	testdb.Eventually(t, "caught up", caughtUp(t, pool, "moved"))
	p.assertAll(t, pool)
}
