package projections_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// meetings is a logger that counts lines with a text.
type meetings struct {
	text string
	n    atomic.Int64
}

// foundElsewhere is the error text of a replica that finds another checkpoint than the start of its events.
const foundElsewhere = "moved the checkpoint"

func (m *meetings) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(m.text)) {
		m.n.Add(1)
	}
	return len(line), nil
}

func (m *meetings) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(m, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// dawdling is a counting projection that, in one replica, waits between reading its first events and applying them.
type dawdling struct {
	counting
	wait func()
	once sync.Once
}

func (d *dawdling) Apply(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	d.once.Do(d.wait)
	return d.counting.Apply(ctx, tx, batch)
}

// TestMovedCheckpointIsMet: if another replica moves the checkpoint between reading and applying, the events are not
// applied again.
func TestMovedCheckpointIsMet(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	p := newCounting(t, pool, "contested")
	append1(t, pool, comments(seeded(1), "key", 10)...)
	readAll(t, pool)
	read, moved := make(chan struct{}), make(chan struct{})
	slow := &dawdling{counting: p, wait: func() { close(read); <-moved }}
	met := meetings{text: foundElsewhere}
	stopSlow := run(t, projections.Config{Pool: pool, Projections: []projections.Projection{slow}, Logger: met.logger()})
	<-read
	stopFast := run(t, projections.Config{Pool: pool, Projections: []projections.Projection{p}})
	testdb.Eventually(t, "the other replica has applied them", caughtUp(t, pool, "contested"))
	stopFast()
	close(moved)
	testdb.Eventually(t, "the slow replica meets the checkpoint that the other one has moved",
		func() bool { return met.n.Load() > 0 })
	stopSlow()
	p.assertAll(t, pool)
}

// TestExactlyOnceInChaos: writers append, some commit late; two replicas start, stop and compete; connections are cut.
// Every event is applied once, in order.
func TestExactlyOnceInChaos(t *testing.T) {
	t.Parallel()
	const writers, transactions = 4, 120 // of each
	url := testdb.New(t)
	writing := open(t, url, "writer")
	chaos := newCounting(t, writing, "chaos")
	which := append(projections.All(), chaos)
	met := meetings{text: foundElsewhere}

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
				begun := make(chan struct{})
				which := append(projections.All(),
					&dawdling{counting: chaos, wait: func() { close(begun); time.Sleep(100 * time.Millisecond) }})
				stop := run(t, projections.Config{
					Pool: pool, Projections: which, Wake: wakes[replica], Limit: 1 + random.IntN(300), Logger: met.logger(),
				})
				select { // a busy machine may need longer
				case <-begun:
					pause(calm, time.Duration(50+random.IntN(300))*time.Millisecond)
				case <-calm:
				}
				stop()
				pool.Close()
			}
		})
	}
	othersDone.Go(func() {
		var at projections.Status
		for pause(calm, 20*time.Millisecond) {
			now := status(t, writing, "chaos") // something works again
			if now.Position == at.Position {
				continue
			}
			at = now
			_, err := writing.Exec(context.Background(), `SELECT pg_terminate_backend(pid) FROM (
				SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'replica' ORDER BY random() LIMIT 2) AS s`)
			if err != nil {
				t.Errorf("cut connections: %v", err)
			}
		}
	})
	writersDone.Wait()
	// So far the later replica found the checkpoint locked. Now leave time between batches.
	random := seeded(99)
	n := 0
	testdb.Eventually(t, "a replica meets a checkpoint that another one has moved", func() bool {
		append1(t, writing, comment(random, fmt.Sprintf("calm-%d", n)))
		wakes[n%2].Signal()
		n++
		return met.n.Load() > 0
	})
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
	if diff := modelsDiff(t, writing, readAll(t, writing), projections.All()...); diff != "" {
		t.Error(diff)
	}
	if n := count(t, writing, "events"); n < writers*transactions {
		t.Errorf("only %d events were written", n)
	}
	t.Logf("replicas have met %d checkpoints that others had moved", met.n.Load())
}

// write appends transactions of up to 20 comments. Every eighth commits late, after later ones.
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
		if err := projections.Append(context.Background(), tx, recorded...); err != nil {
			return err
		}
		time.Sleep(late)
		return nil
	})
	if err != nil {
		t.Errorf("append late: %v", err)
	}
}

// TestOpenTransactionsHideNothing: an append that waits to commit delays later ones, and a transaction that only writes
// elsewhere delays nobody.
func TestOpenTransactionsHideNothing(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	p, wake := newCounting(t, pool, "late"), eventlog.NewWake()
	run(t, projections.Config{Pool: pool, Projections: []projections.Projection{p}, Wake: wake, Limit: 3})
	random := seeded(1)

	elsewhere := testdb.Begin(t, pool)
	testdb.Exec(t, elsewhere, `INSERT INTO settings (name, value) VALUES ('open', '')`)
	appending := testdb.Begin(t, pool)
	if err := projections.Append(t.Context(), appending, comments(random, "first", 5)...); err != nil {
		t.Fatal(err)
	}
	appended := make(chan struct{})
	go func() {
		defer close(appended)
		append1(t, pool, comments(random, "second", 5)...)
		wake.Signal()
	}()
	if err := appending.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-appended
	testdb.Eventually(t, "all applied", func() bool { return len(p.applied(t, pool)) == 10 })
	p.assertAll(t, pool)
	if s := status(t, pool, "late"); s.LagEvents != 0 || s.LagSeconds != 0 {
		t.Errorf("beside an open transaction: %+v", s)
	}
}

// TestStandbyStepsIn: a second replica takes over when the first one ends.
func TestStandbyStepsIn(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	pool := open(t, url, "writer")
	p := newCounting(t, pool, "standby")
	random := seeded(1)
	stops := make([]func(), 0, 2)
	for range 2 {
		stops = append(stops,
			run(t, projections.Config{Pool: open(t, url, "replica"), Projections: []projections.Projection{p}}))
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
