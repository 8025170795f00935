package rebuild_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// appending appends continuously until stop is called.
func appending(t *testing.T, pool *pgxpool.Pool) (stop func()) {
	t.Helper()
	var writer sync.WaitGroup
	done := make(chan struct{})
	random := seeded(2)
	writer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
				append1(t, pool, comments(random, fmt.Sprint("while ", i), 30)...)
				time.Sleep(10 * time.Millisecond) // so that the log stays short on a fast machine
			}
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		writer.Wait()
	})
}

// yielding is a log handler that detects that a rebuild slows down.
type yielding struct {
	slog.Handler
	begun chan struct{}
}

func (y yielding) Enabled(context.Context, slog.Level) bool { return true }

func (y yielding) Handle(_ context.Context, record slog.Record) error {
	if record.Message == "Clients append: the rebuild slows down" {
		close(y.begun)
	}
	return nil
}

func (y yielding) WithAttrs([]slog.Attr) slog.Handler { return y }

// TestRebuildYieldsToThoseWhoAppend: on a clock on which each chunk takes an hour, a throttled rebuild makes no
// progress, and one without a clock completes.
func TestRebuildYieldsToThoseWhoAppend(t *testing.T) {
	t.Parallel()
	pool := filled(t, "before", 1000)
	var hours atomic.Int64
	config := rebuild.Config{
		Pool: pool, Projection: projections.Posts{}, Workers: 2, ChunkSize: 1, Logger: quiet(),
		Now: func() time.Time { return time.Unix(hours.Add(1)*3600, 0) },
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	yields := yielding{begun: make(chan struct{})}
	yielded := config
	yielded.Logger = slog.New(yields)
	var loaded atomic.Int64
	yielded.Progress = func(p rebuild.Progress) {
		select {
		case <-yields.begun:
		case <-ctx.Done():
		}
		loaded.Store(int64(p.Done))
	}
	stop := appending(t, pool)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		_, err := rebuild.Run(ctx, yielded)
		ended <- err
	}()
	<-yields.begun
	select {
	case err := <-ended:
		t.Fatalf("the rebuild has ended: %v", err)
	case <-time.After(time.Second): // enough to finish without throttling
	}
	if n := loaded.Load(); n >= 1000 {
		t.Errorf("%d events were loaded: it does not rest", n)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the rebuild: %v", err)
	}
	stop()
	settle(t, pool)
	config.ChunkSize = 100
	mustRun(t, config)
	if n, want := count(t, pool, "posts"), count(t, pool, "events"); n != want {
		t.Errorf("%d posts of %d events", n, want)
	}
}

// TestRebuildWhileOthersAppend: a rebuild during appends gives the right rows, with all workers or fewer.
func TestRebuildWhileOthersAppend(t *testing.T) {
	t.Parallel()
	for _, p := range []projections.Projection{projections.Posts{}, projections.Authors{}} {
		t.Run(p.Name(), func(t *testing.T) {
			t.Parallel()
			pool := filled(t, "before", 1000)
			follow(t, pool, p)
			stop := appending(t, pool)
			defer stop()
			mustRun(t, rebuild.Config{
				Pool: pool, Projection: p, Workers: 4, ChunkSize: 10, Now: time.Now,
				Progress: func(progress rebuild.Progress) {
					// not before: the rebuild must reach this during appends
					if progress.Phase != rebuild.Loading && progress.Done >= 1000 {
						stop()
					}
				},
			})
			stop()
			caughtUp(t, pool, p.Name())
			built := digest(t, pool, p)
			mustRun(t, rebuild.Config{Pool: pool, Projection: p})
			if diff := cmp.Diff(digest(t, pool, p), built); diff != "" {
				t.Errorf("(-rebuilt at rest +rebuilt meanwhile):\n%s", diff)
			}
		})
	}
}
