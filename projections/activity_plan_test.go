package projections_test

import (
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestErasureProbesThreads: nothing has ever analysed this database, and the statement is planned once, while it is
// empty. The threads in which an author took part must be found by index probes all the same, then and when there are
// many.
func TestErasureProbesThreads(t *testing.T) {
	t.Parallel()
	conn, err := newPool(t).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	sql, err := os.ReadFile("activity_erase.sql")
	if err != nil {
		t.Fatal(err)
	}
	execute := func(statements ...string) {
		t.Helper()
		for _, statement := range statements {
			if _, err := conn.Exec(t.Context(), statement); err != nil {
				t.Fatalf("%.60s: %v", statement, err)
			}
		}
	}
	check := func(when, want string) {
		t.Helper()
		execute(`INSERT INTO daily_authors (author_id, novel_id, day, integration_id)
			SELECT md5('author')::uuid, novel_id, 'epoch', md5('i')::uuid FROM threads ORDER BY novel_id LIMIT 20`)
		tx, err := conn.Begin(t.Context()) // ANALYZE writes what the statement writes
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(t.Context()) }()
		const explain = `EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) EXECUTE erase (md5('author')::uuid, '9', 1)`
		rows, err := tx.Query(t.Context(), explain, pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		plan := strings.Join(lines, "\n")
		for _, line := range lines {
			for _, table := range []string{"thread_activity", "threads"} {
				if strings.Contains(line, "Seq Scan on "+table+" ") && !strings.Contains(line, "never executed") {
					t.Errorf("%s: all of %s is read:\n%s", when, table, plan)
				}
			}
		}
		var changed string
		const changedSQL = `SELECT count(*) || ' of ' || (SELECT count(*) FROM thread_activity) FROM thread_activity WHERE participants = 4`
		if err := tx.QueryRow(t.Context(), changedSQL).Scan(&changed); err != nil || changed != want {
			t.Errorf("%s: %s threads are changed, want %s, %v", when, changed, want, err)
		}
	}
	prepare := `PREPARE erase (uuid, xid8, integer) AS ` + string(sql)
	execute(`SET plan_cache_mode = force_generic_plan`, prepare)
	check("empty", "0 of 0")
	execute(
		`INSERT INTO threads (novel_id, thread_id) SELECT md5('n' || n)::uuid, md5('t' || n)::uuid FROM generate_series(1, 10000) AS n`,
		`INSERT INTO thread_activity (thread_id, novel_id, posts, replies, participants, first_post_id, first_post_at, last_post_id, last_post_at, first_received_at, last_received_at)
		 SELECT thread_id, novel_id, 9, 0, 5, thread_id, 'epoch', thread_id, 'epoch', 'epoch', 'epoch' FROM threads`,
	)
	check("grown, planned while empty", "20 of 10000")
	execute(`DELETE FROM daily_authors`, `DEALLOCATE erase`, prepare)
	check("grown", "20 of 10000")
}
