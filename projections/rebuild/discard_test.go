package rebuild_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// TestDiscard discards killed rebuilds. Nothing of them is left, and nothing else has changed.
func TestDiscard(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		projection projections.Projection
		until      events.Position
	}{
		{projections.Posts{}, 500},
		{projections.Posts{}, 3000},
		{projections.Titles{}, 3000},
	} {
		t.Run(fmt.Sprintf("%s after %d", c.projection.Name(), c.until), func(t *testing.T) {
			t.Parallel()
			pool, name := newPool(t), c.projection.Name()
			append1(t, pool, comments(seeded(1), "c", 3000)...)
			config := rebuild.Config{Pool: pool, Projection: c.projection, ChunkSize: childChunkSize}
			mustRun(t, config)
			before := digest(t, pool, c.projection)
			if _, err := rebuild.Discard(t.Context(), pool, c.projection); !errors.Is(err, rebuild.ErrNothingToDiscard) {
				t.Errorf("a finished rebuild: %v", err)
			}

			kill(t, pool, name, c.until)
			if len(buildSchemas(t, pool)) != 1 {
				t.Fatalf("the killed rebuild has left %v", buildSchemas(t, pool))
			}
			var discarded rebuild.Discarded
			testdb.Eventually(t, "the lock of the killed process is free", func() bool {
				var err error
				discarded, err = rebuild.Discard(t.Context(), pool, c.projection)
				if err != nil && !errors.Is(err, rebuild.ErrUnderWay) {
					t.Fatal(err)
				}
				return err == nil
			})
			want := rebuild.Discarded{Name: name, Generation: c.projection.Generation(), EventsDone: c.until}
			if discarded != want {
				t.Errorf("discarded %+v, want %+v", discarded, want)
			}
			if left := buildSchemas(t, pool); len(left) > 0 {
				t.Errorf("left are %v", left)
			}
			wantRows(t, pool, "projection_rebuilds", 0)
			wantDigest(t, pool, c.projection, before)
			if _, err := rebuild.Discard(t.Context(), pool, c.projection); !errors.Is(err, rebuild.ErrNothingToDiscard) {
				t.Errorf("again: %v", err)
			}
			if result := mustRun(t, config); result.Resumed {
				t.Errorf("a rebuild after that goes on with what was discarded: %+v", result)
			}
			wantDigest(t, pool, c.projection, before)
		})
	}
}

// TestDiscardWaitsForTheBuilder: a killed builder whose last transaction still runs on the server locks the record and
// then the tables. Discard waits for it, without a deadlock.
func TestDiscardWaitsForTheBuilder(t *testing.T) {
	t.Parallel()
	pool := filled(t, "c", 100)
	interrupt(t, rebuild.Config{Pool: pool, Projection: projections.Posts{}, ChunkSize: 10}, 50)
	builder := testdb.Begin(t, pool)
	testdb.Exec(t, builder, `SELECT position FROM projection_rebuilds FOR NO KEY UPDATE`)
	ended := make(chan error, 1)
	go func() {
		_, err := rebuild.Discard(context.Background(), pool, projections.Posts{})
		ended <- err
	}()
	testdb.Eventually(t, "Discard waits", func() bool { return waiting(t, pool) })
	testdb.Exec(t, builder, `UPDATE posts_2.posts SET depth = depth`)
	testdb.NoError(t, builder.Commit(t.Context()))
	if err := <-ended; err != nil {
		t.Errorf("Discard: %v", err)
	}
	if left := buildSchemas(t, pool); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// waiting reports whether a rebuild waits for a lock.
func waiting(t testing.TB, pool *pgxpool.Pool) bool {
	t.Helper()
	return testdb.Value[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'novelgate-rebuild' AND wait_event_type = 'Lock')`)
}

// buildSchemas lists the schemas of rebuilds.
func buildSchemas(t testing.TB, pool *pgxpool.Pool) []string {
	t.Helper()
	return testdb.Value[[]string](t, pool, `SELECT coalesce(array_agg(nspname ORDER BY nspname), '{}') FROM pg_namespace WHERE nspname ~ '_[0-9]+(_old)?$' AND nspname !~ '^pg_'`)
}
