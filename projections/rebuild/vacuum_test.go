package rebuild_test

import (
	"testing"

	"novelgate/internal/testdb"
	"novelgate/migrations"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// An autovacuum that would work on the live table for hours gives way to the switch.
func TestAutovacuumGivesWay(t *testing.T) {
	t.Parallel()
	url := testdb.NewServer(t, map[string]string{"autovacuum_naptime": "1s"})
	testdb.Must(migrations.Apply(t.Context(), url))(t)
	pool := testdb.Pool(t, url)
	append1(t, pool, comments(seeded(1), "a", 2000)...)
	build := func() { mustRun(t, rebuild.Config{Pool: pool, Projection: projections.Posts{}}) }
	build()
	// One page in ten seconds.
	testdb.Exec(t, pool, `ALTER TABLE posts SET (autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0,
		autovacuum_vacuum_cost_limit = 1, autovacuum_vacuum_cost_delay = 100)`)
	testdb.Exec(t, pool, `UPDATE posts SET depth = depth`)
	testdb.Eventually(t, "an autovacuum", func() bool {
		return testdb.Value[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_stat_progress_vacuum WHERE relid = 'posts'::regclass)`)
	})
	build()
	wantRows(t, pool, "posts", 2000)
}
