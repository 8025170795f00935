package rebuild_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// TestDiscard discards rebuilds that were killed in each phase. Nothing of them is left, and nothing else has changed.
func TestDiscard(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		projection projections.Projection
		until      int
		phase      string
	}{
		{projections.Posts{}, 500, rebuild.Loading},
		{projections.Posts{}, 3000, rebuild.Loading},
		{projections.Authors{}, 3000, rebuild.Following},
		{projections.Titles{}, 3000, rebuild.Following},
	} {
		t.Run(fmt.Sprintf("%s after %d", c.projection.Name(), c.until), func(t *testing.T) {
			t.Parallel()
			pool, name := newPool(t), c.projection.Name()
			append1(t, pool, comments(seeded(1), "c", 3000)...)
			settle(t, pool)
			config := rebuild.Config{Pool: pool, Projection: c.projection, ChunkSize: childChunkSize}
			mustRun(t, config)
			before := digest(t, pool, c.projection)
			if _, err := rebuild.Discard(t.Context(), pool, c.projection); !errors.Is(err, rebuild.ErrNothingToDiscard) {
				t.Errorf("a finished rebuild: %v", err)
			}

			kill(t, pool, name, c.until, c.phase)
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
			if discarded.Name != name || discarded.Phase != c.phase || discarded.Generation != c.projection.Generation() ||
				discarded.EventsDone == 0 {
				t.Errorf("discarded %+v", discarded)
			}
			if left := buildSchemas(t, pool); len(left) > 0 {
				t.Errorf("left are %v", left)
			}
			for _, table := range []string{"projection_rebuilds", "projection_rebuild_ranges", "projection_rebuild_rest"} {
				if n := count(t, pool, table); n != 0 {
					t.Errorf("%d rows are left in %s", n, table)
				}
			}
			if diff := cmp.Diff(before, digest(t, pool, c.projection)); diff != "" {
				t.Errorf("the live tables (-before +after)\n%s", diff)
			}
			if _, err := rebuild.Discard(t.Context(), pool, c.projection); !errors.Is(err, rebuild.ErrNothingToDiscard) {
				t.Errorf("again: %v", err)
			}
			if result := mustRun(t, config); result.Resumed {
				t.Errorf("a rebuild after that goes on with what was discarded: %+v", result)
			}
			if diff := cmp.Diff(before, digest(t, pool, c.projection)); diff != "" {
				t.Errorf("rebuilt (-before +after)\n%s", diff)
			}
		})
	}
}

// TestDiscardWhileUnderWay: Discard refuses a running rebuild, which then completes.
func TestDiscardWhileUnderWay(t *testing.T) {
	t.Parallel()
	pool := filled(t, "c", 500)
	checked := false
	result, err := rebuild.Run(t.Context(), rebuild.Config{
		Pool: pool, Projection: projections.Posts{}, ChunkSize: childChunkSize, Logger: quiet(),
		Progress: func(p rebuild.Progress) {
			if checked || p.Done == 0 {
				return
			}
			checked = true
			if _, err := rebuild.Discard(context.Background(), pool, projections.Posts{}); !errors.Is(err, rebuild.ErrUnderWay) {
				t.Errorf("while it is under way: %v", err)
			}
			if len(buildSchemas(t, pool)) != 1 {
				t.Error("its tables are gone")
			}
		},
	})
	if err != nil || !checked || result.Events < 500 {
		t.Errorf("%+v, %v", result, err)
	}
}

// buildSchemas lists the schemas of rebuilds.
func buildSchemas(t testing.TB, pool *pgxpool.Pool) []string {
	t.Helper()
	return testdb.Value[[]string](t, pool, `SELECT coalesce(array_agg(nspname ORDER BY nspname), '{}') FROM pg_namespace WHERE nspname ~ '_[0-9]+(_old)?$' AND nspname !~ '^pg_'`)
}
