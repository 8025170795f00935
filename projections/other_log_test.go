package projections_test

import (
	"context"
	"testing"

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

// TestEventsOfAnotherLogAreNotApplied: events of one log are not applied to the tables of another, neither in batches
// nor in chunks of a catch-up.
func TestEventsOfAnotherLogAreNotApplied(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int{"batch": 0, "chunk": 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t)
			random := seeded(1)
			first, second := comments(random, "first", 10), comments(random, "lost", 10)
			append1(t, pool, first...)
			append1(t, pool, second...)
			readAll(t, pool)
			var batches int
			p := hooked{counting: newCounting(t, pool, "hooked")}
			p.hook = func() {
				if batches++; limit == 0 || batches == 2 { // the second comes with a chunk
					p.hook = func() {}
					testdb.Lose(t, pool, `event_id LIKE 'lost%'`)
				}
			}
			wake := eventlog.NewWake()
			run(t, projections.Config{Pool: pool, Projections: []projections.Projection{&p}, Wake: wake, Limit: limit})
			testdb.Eventually(t, "the log is another one", func() bool { return count(t, pool, "events") == 10 })
			testdb.Eventually(t, "caught up", caughtUp(t, pool, "hooked"))
			append1(t, pool, comments(random, "new", 5)...)
			wake.Signal()
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

	// Log, table and checkpoint are set back together.
	tx := testdb.Begin(t, pool)
	testdb.Exec(t, tx, `UPDATE projections SET transaction_id = $1, position = $2`, before.TransactionID,
		before.Position)
	testdb.Exec(t, tx, `DELETE FROM applied_moved AS a USING events AS e
		WHERE (e.transaction_id, e.position) = (a.transaction_id, a.position) AND e.event_id LIKE 'lost%'`)
	testdb.Lose(t, tx, `event_id LIKE 'lost%'`)
	// An event after the checkpoint and before the follower's position.
	testdb.Exec(t, tx, `INSERT INTO events (transaction_id, position, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, actor, batch_id)
		SELECT transaction_id, position + 1, 'thread', gen_random_uuid(), 1, 'new', 'test', 'thread.opened.v1', '{}', 'test',
			gen_random_uuid()
		FROM events ORDER BY transaction_id DESC, position DESC LIMIT 1`)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wake.Signal()
	testdb.Eventually(t, "caught up", caughtUp(t, pool, "moved"))
	p.assertAll(t, pool)
}
