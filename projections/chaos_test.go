package projections_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
	"novelgate/internal/testsize"
	"novelgate/projections"
)

// Writers append, some of them committing late; two replicas come and go; connections are cut. In the end every event was
// applied once, in order.
func TestExactlyOnceInChaos(t *testing.T) {
	t.Parallel()
	const writers = 4
	transactions := testsize.Of(500, 120)
	url := testdb.New(t)
	writing := open(t, url, "writer")
	which := append(projections.All(), newCounting(t, writing, "chaos"))

	var writersDone, othersDone sync.WaitGroup
	calm := make(chan struct{})
	wakes := []*eventlog.Wake{eventlog.NewWake(), eventlog.NewWake()}
	for w := range writers {
		writersDone.Go(func() { write(t, writing, wakes[w%2], uint64(w), transactions) })
	}
	for replica := range 2 {
		othersDone.Go(func() {
			random := seeded(uint64(replica) + 100)
			for pause(calm, time.Millisecond) {
				pool := open(t, url, "replica")
				stop := run(t, projections.Config{Pool: pool, Projections: which, Wake: wakes[replica], Limit: 1 + random.IntN(300), Logger: quiet()})
				pause(calm, time.Duration(50+random.IntN(300))*time.Millisecond)
				stop()
				pool.Close()
			}
		})
	}
	othersDone.Go(func() {
		for pause(calm, 20*time.Millisecond) {
			_, err := writing.Exec(context.Background(), `SELECT pg_terminate_backend(pid) FROM (
				SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'replica' ORDER BY random() LIMIT 2) AS s`)
			if err != nil {
				t.Errorf("cut connections: %v", err)
			}
		}
	})
	writersDone.Wait()
	close(calm)
	othersDone.Wait()

	run(t, projections.Config{Pool: writing, Projections: which})
	for _, p := range which {
		testdb.Eventually(t, p.Name()+" catches up", caughtUp(t, writing, p.Name()))
		if s := status(t, writing, p.Name()); s.State != projections.Running {
			t.Errorf("%s is %s: %v", p.Name(), s.State, *s.Error)
		}
	}
	counting{name: "chaos"}.assertAll(t, writing)
	assertTables(t, writing)
	if diff := modelsDiff(t, writing, readAll(t, writing)); diff != "" {
		t.Error(diff)
	}
	if n := count(t, writing, "events"); n < writers*transactions {
		t.Errorf("only %d events were written", n)
	}
}

// write appends transactions of up to 20 comments. Every eighth holds its commit back, so that later ones overtake it.
func write(t *testing.T, pool *pgxpool.Pool, wake *eventlog.Wake, writer uint64, transactions int) {
	random := seeded(writer)
	for i := range transactions {
		recorded := comments(random, fmt.Sprintf("writer-%d-%d", writer, i), 1+random.IntN(20))
		if random.IntN(8) > 0 {
			append1(t, pool, recorded...)
		} else {
			appendLate(t, pool, recorded, time.Duration(random.IntN(30))*time.Millisecond)
		}
		wake.Signal()
	}
}

func appendLate(t *testing.T, pool *pgxpool.Pool, recorded []events.Recorded, late time.Duration) {
	t.Helper()
	err := pgx.BeginFunc(context.Background(), pool, func(tx pgx.Tx) error {
		var batch pgx.Batch
		if err := eventlog.Queue(&batch, recorded); err != nil {
			return err
		}
		if err := tx.SendBatch(context.Background(), &batch).Close(); err != nil {
			return err
		}
		time.Sleep(late)
		return nil
	})
	if err != nil {
		t.Errorf("append late: %v", err)
	}
}

// An event of an older transaction that commits after a younger one is applied before it, not skipped.
func TestLateCommitIsNotSkipped(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	p, wake := newCounting(t, pool, "late"), eventlog.NewWake()
	run(t, projections.Config{Pool: pool, Projections: []projections.Projection{p}, Wake: wake, Limit: 3})
	random := seeded(1)

	older, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var batch pgx.Batch
	if err := eventlog.Queue(&batch, comments(random, "older", 5)); err != nil {
		t.Fatal(err)
	}
	if err := older.SendBatch(t.Context(), &batch).Close(); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		append1(t, pool, comments(random, fmt.Sprintf("younger-%d", i), 2)...)
		wake.Signal()
		time.Sleep(2 * time.Millisecond)
	}
	if applied := p.applied(t, pool); len(applied) > 0 {
		t.Errorf("%d events were applied while an older transaction was running", len(applied))
	}
	if err := older.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	testdb.Eventually(t, "all applied", func() bool { return len(p.applied(t, pool)) >= 45 })
	p.assertAll(t, pool)
}

// A second replica takes over from one that ends.
func TestStandbyStepsIn(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	pool := open(t, url, "writer")
	p := newCounting(t, pool, "standby")
	random := seeded(1)
	stops := make([]func(), 0, 2)
	for range 2 {
		stops = append(stops, run(t, projections.Config{Pool: open(t, url, "replica"), Projections: []projections.Projection{p}}))
	}
	for i, n := 0, 0; i < 3; i++ {
		append1(t, pool, comments(random, fmt.Sprintf("part-%d", i), 10)...)
		n += 10
		var notification pgx.Batch
		eventlog.QueueNotification(&notification)
		if err := pool.SendBatch(t.Context(), &notification).Close(); err != nil {
			t.Fatal(err)
		}
		testdb.Eventually(t, "part is applied", func() bool { return len(p.applied(t, pool)) == n })
		if i < 1 {
			stops[i]()
		}
	}
	p.assertAll(t, pool)
}
