package rebuild_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// TestPace: while clients append, a rebuild pauses after each chunk for twice its duration, but only if it still gains
// on the log. On the clock of the test every chunk takes the same time; a pause takes real time.
func TestPace(t *testing.T) {
	t.Parallel()
	const chunk, chunks = 100, 8
	for name, test := range map[string]struct {
		took    time.Duration // per chunk
		appends []int         // during each of the first chunks
		least   time.Duration // sum of the pauses
	}{
		// A rebuild of 1,000 events a second may pause while the log grows by 100 to 266 a second. The first chunk only
		// measures the log.
		"clients append":      {100 * time.Millisecond, []int{20, 20, 20, 20, 0}, 3 * 200 * time.Millisecond},
		"clients append less": {time.Hour, []int{20, 20, 20, 20, 0}, 0},
		// A rebuild of 3.3 events a second, while the log grows by 100 a second.
		"it would not gain": {30 * time.Second, []int{0, 3000, 0}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Less than a pause of the cases without one.
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
			defer cancel()
			pool := filled(t, "before", chunk*chunks)
			clock, appended := time.Unix(0, 0), 0
			config := rebuild.Config{
				Pool: pool, Projection: projections.Posts{}, ChunkSize: chunk, Logger: quiet(),
				Now: func() time.Time { return clock },
				Progress: func(p rebuild.Progress) {
					if p.Done == 0 {
						return
					}
					clock = clock.Add(test.took)
					if i := int(p.Done)/chunk - 1; i < len(test.appends) && test.appends[i] > 0 {
						append1(t, pool, comments(seeded(uint64(i)), fmt.Sprint("during ", i), test.appends[i])...)
						appended += test.appends[i]
					}
				},
			}
			begun := time.Now()
			result := testdb.Must(rebuild.Run(ctx, config))(t)
			if all := chunk*chunks + appended; result.Events != all {
				t.Errorf("%d of %d events", result.Events, all)
			}
			if took := time.Since(begun); took < test.least {
				t.Errorf("it took only %v, with pauses of %v", took, test.least)
			}
		})
	}
}

// appending appends continuously until stop is called. Every append succeeds in the end.
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
				name := fmt.Sprint("while ", i)
				recorded := append(comments(random, name, 30), novel(random, name)...)
				err := projections.Append(context.Background(), pool, recorded...)
				for eventlog.IsConflict(err) { // a switch held the tables for longer than an append waits
					err = projections.Append(context.Background(), pool, recorded...)
				}
				if err != nil {
					t.Errorf("append: %v", err)
					return
				}
				time.Sleep(10 * time.Millisecond) // so that the log stays short on a fast machine
			}
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		writer.Wait()
	})
}

// TestRebuildWhileOthersAppend: rebuilds, with their switches, during appends give the right rows.
func TestRebuildWhileOthersAppend(t *testing.T) {
	t.Parallel()
	for _, p := range []projections.Projection{
		projections.Posts{}, projections.Activity{}, projections.Titles{}, projections.Threads{},
	} {
		t.Run(p.Name(), func(t *testing.T) {
			t.Parallel()
			pool := filled(t, "before", 1000)
			if !projections.IsInline(p) {
				follow(t, pool, p)
			}
			stop := appending(t, pool)
			defer stop()
			for range 3 {
				mustRun(t, rebuild.Config{Pool: pool, Projection: p, ChunkSize: 500})
			}
			stop()
			if !projections.IsInline(p) {
				caughtUp(t, pool, p.Name())
			}
			built := digest(t, pool, p)
			mustRun(t, rebuild.Config{Pool: pool, Projection: p})
			wantDigest(t, pool, p, built)
		})
	}
}
