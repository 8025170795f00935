package mirror_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events"
	"novelgate/events/ledger"
	"novelgate/events/ledger/audit"
	"novelgate/events/ledger/ledgertest"
	"novelgate/events/mirror"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// origin is a ledger as a mirror reads it, whose answers a test may change.
type origin struct {
	mu         sync.Mutex
	ledger     *ledgertest.Ledger
	checkpoint func(note []byte) []byte
	events     func(list []ledger.Event, first int64) []ledger.Event
	away       error // what it answers instead of a checkpoint
}

func (o *origin) source() *audit.Database {
	o.mu.Lock()
	defer o.mu.Unlock()
	return audit.NewDatabase(o.ledger.Pool)
}

// change makes the origin answer otherwise from now on.
func (o *origin) change(how func(o *origin)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	how(o)
}

func (*origin) First() int64 { return 0 }

func (o *origin) Keys(ctx context.Context) ([]string, error) { return o.source().Keys(ctx) }

func (o *origin) Tile(ctx context.Context, tile tlog.Tile) ([]byte, error) {
	return o.source().Tile(ctx, tile)
}

func (o *origin) Checkpoint(ctx context.Context) ([]byte, error) {
	note, err := o.source().Checkpoint(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.away != nil {
		return nil, o.away
	}
	if o.checkpoint != nil && err == nil {
		note = o.checkpoint(note)
	}
	return note, err
}

func (o *origin) Events(ctx context.Context, first int64, count int, size int64) ([]ledger.Event, error) {
	list, err := o.source().Events(ctx, first, count, size)
	if errors.Is(err, ledger.ErrDamaged) { // a service answers so when it does not have the event before them
		err = ledger.ErrNotFound
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.events != nil && err == nil {
		list = o.events(list, first)
	}
	return list, err
}

// replica is a mirror on a database of its own.
type replica struct {
	*mirror.Mirror
	pool *pgxpool.Pool
	stop func()
}

func config(pool *pgxpool.Pool, source audit.Source, keys []string) mirror.Config {
	return mirror.Config{
		Pool: pool, URL: "https://origin.example", Source: source, Keys: keys, Now: time.Now,
		Logger: slog.New(slog.DiscardHandler),
		Inline: func(context.Context, *pgx.Batch, []events.Recorded) error { return nil },
		Erase:  func(context.Context, pgx.Tx, *events.Recorded) error { return nil },
	}
}

// begin makes a database a mirror.
func begin(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool := testdb.Must(database.OpenHistory(t.Context(), testdb.New(t)))(t)
	t.Cleanup(pool.Close)
	if err := mirror.Begin(t.Context(), pool, "https://origin.example"); err != nil {
		t.Fatal(err)
	}
	return pool
}

// run runs a mirror and its sealer until stop.
func run(t testing.TB, c mirror.Config) *replica {
	t.Helper()
	r := &replica{Mirror: mirror.New(c), pool: c.Pool}
	sealer := ledger.NewSealer(ledger.SealerConfig{Pool: c.Pool, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { r.Run(ctx) })
	all.Go(func() { sealer.Run(ctx) })
	r.stop = sync.OnceFunc(func() { cancel(); all.Wait() })
	t.Cleanup(r.stop)
	return r
}

func follow(t testing.TB, source audit.Source, keys []string) *replica {
	t.Helper()
	return run(t, config(begin(t), source, keys))
}

// wantServed waits until the mirror serves a checkpoint over a number of entries, and wants it to have as many events.
func (r *replica) wantServed(t testing.TB, size int64) {
	t.Helper()
	testdb.Eventually(t, "the mirror serves a checkpoint over all entries", func() bool {
		c, err := ledger.NewStore(r.pool).Served(t.Context())
		return err == nil && c.Tree.N == size
	})
	if got := testdb.Value[int64](t, r.pool, `SELECT count(*) FROM events`); got != size {
		t.Errorf("the mirror has %d events, want %d", got, size)
	}
	if s := r.Status(); s.Stopped != "" || s.StoppedAt != nil {
		t.Errorf("it has stopped: %+v", s)
	}
}

// wantStopped waits until the mirror has stopped at a log index, and wants it to have only the events before.
func (r *replica) wantStopped(t testing.TB, at, events int64) {
	t.Helper()
	var s mirror.Status
	testdb.Eventually(t, "the mirror has stopped", func() bool {
		s = r.Status()
		return s.StoppedAt != nil
	})
	if *s.StoppedAt != at {
		t.Errorf("it has stopped at log index %d, want %d: %s", *s.StoppedAt, at, s.Stopped)
	}
	if got := testdb.Value[int64](t, r.pool, `SELECT count(*) FROM events`); got != events {
		t.Errorf("the mirror has %d events, want %d", got, events)
	}
}
