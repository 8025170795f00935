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
				stop := run(t, projections.Config{
					Pool: pool, Projections: which, Wake: wakes[replica], Limit: 1 + random.IntN(300), Logger: quiet(),
				})
				pause(calm, time.Duration(200+random.IntN(300))*time.Millisecond)
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
