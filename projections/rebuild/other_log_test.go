package rebuild_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// loading is the projection posts, which counts the chunks that were read and loaded.
type loading struct {
	projections.Posts
	chunks *atomic.Int64
}

func (l loading) NewLoader() projections.Loader { return countedLoader{l.Posts.NewLoader(), l.chunks} }

type countedLoader struct {
	projections.Loader
	chunks *atomic.Int64
}

func (l countedLoader) Load(batch []events.Recorded) ([]projections.Rows, []events.Recorded, error) {
	l.chunks.Add(1)
	return l.Loader.Load(batch)
}

// TestRebuildDoesNotGoOnInAnotherLog: a running rebuild ends when it meets another log. The next one continues from the
// record there.
func TestRebuildDoesNotGoOnInAnotherLog(t *testing.T) {
	t.Parallel()
	pool := filled(t, "key", 60)
	config := pool.Config()
	// replace a cut connection without a ping
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return true }
	patient, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(patient.Close)
	var lost bool
	posts := loading{chunks: new(atomic.Int64)}
	_, err = rebuild.Run(t.Context(), rebuild.Config{
		Pool: patient, Projection: posts, Workers: 1, ChunkSize: 20, Logger: quiet(),
		Progress: func(p rebuild.Progress) {
			if p.Done == 0 || lost {
				return
			}
			lost = true
			// Otherwise the cut could end the rebuild while it reads.
			testdb.Eventually(t, "there is a chunk of the first log to write", func() bool { return posts.chunks.Load() > 1 })
			testdb.Lose(t, pool, `event_id = 'key-0'`)
			if _, err := pool.Exec(context.Background(), `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
				WHERE datname = current_database() AND application_name = 'novelgate-rebuild'`); err != nil {
				t.Errorf("cut connections: %v", err)
			}
		},
	})
	if !errors.Is(err, eventlog.ErrOtherLog) {
		t.Errorf("the rebuild ended with %v", err)
	}
	if !lost {
		t.Error("the log was never another one")
	}
	mustRun(t, rebuild.Config{Pool: pool, Projection: projections.Posts{}})
}

// TestRebuildOfALostEventBeginsAgain: an interrupted rebuild starts again when its last event is no longer in the log.
func TestRebuildOfALostEventBeginsAgain(t *testing.T) {
	t.Parallel()
	pool := filled(t, "key", 60)
	interrupt(t, rebuild.Config{Pool: pool, Projection: projections.Authors{}}, 1)
	testdb.Lose(t, pool, `position >= 30`)
	result := mustRun(t, rebuild.Config{Pool: pool, Projection: projections.Authors{}})
	if result.Resumed || result.Events != 30 {
		t.Errorf("%+v", result)
	}
}
