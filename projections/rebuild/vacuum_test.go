package rebuild_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/testdb"
	"novelgate/migrations"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// An autovacuum that would work on the live table for hours gives way to the switch.
func TestAutovacuumGivesWay(t *testing.T) {
	t.Parallel()
	url := testdb.NewServer(t, map[string]string{"autovacuum_naptime": "1s"})
	if err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	append1(t, pool, comments(seeded(1), "a", 2000)...)
	settle(t, pool)
	build := func() {
		t.Helper()
		if _, err := rebuild.Run(t.Context(), rebuild.Config{
			Pool: pool, Projection: projections.Posts{},
			Logger: quiet(),
		}); err != nil {
			t.Fatal(err)
		}
	}
	build()
	// One page in ten seconds.
	_, err = pool.Exec(t.Context(), `ALTER TABLE posts SET (autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0,
		autovacuum_vacuum_cost_limit = 1, autovacuum_vacuum_cost_delay = 100)`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE posts SET depth = depth`); err != nil {
		t.Fatal(err)
	}
	testdb.Eventually(t, "an autovacuum", func() (found bool) {
		err := pool.QueryRow(t.Context(),
			`SELECT EXISTS (SELECT FROM pg_stat_progress_vacuum WHERE relid = 'posts'::regclass)`).Scan(&found)
		if err != nil {
			t.Fatal(err)
		}
		return found
	})
	build()
	if n := count(t, pool, "posts"); n != 2000 {
		t.Errorf("%d posts", n)
	}
}
