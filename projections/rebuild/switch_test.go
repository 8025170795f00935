package rebuild_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// While tables are rebuilt again and again, under writes, no read fails, none sees rows of two generations or of none,
// and none sees fewer rows than one before it.
func TestReadersSeeOneGeneration(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	stop := make(chan struct{})
	var others sync.WaitGroup
	var reads, appended atomic.Int64

	p := newStamped(t, pool, "watched")
	random := seeded(1)
	append1(t, pool, comments(random, "first", 500)...)
	stopFollowing := follow(t, pool, p)
	caughtUp(t, pool, p.name)

	others.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				batch := comments(random, fmt.Sprintf("more-%d", i), 10)
				append1(t, pool, append(batch, approval(batch[3], 2))...)
				appended.Add(10)
			}
		}
	})
	for reader, sql := range []string{
		`SELECT count(DISTINCT generation), min(generation), count(*) FROM watched`,
		`SELECT count(*), min(generation), coalesce(sum(posts), 0)::bigint FROM analytics."watched of all"`,
		`SELECT count(DISTINCT v.generation), min(v.generation), count(*) FROM analytics.watched AS v JOIN watched AS t USING (post_id) WHERE v.generation = t.generation`,
		`SELECT count(DISTINCT generation), min(generation), (SELECT count(*) FROM analytics.watched) FROM watched`,
	} {
		others.Go(func() { watch(t, pool, reader, sql, stop, &reads) })
	}

	awaitReads := func() {
		before := reads.Load()
		testdb.Eventually(t, "more reads", func() bool { return t.Failed() || reads.Load() >= before+20 })
	}
	for generation := 2; generation <= 6; generation++ {
		awaitReads()
		next := p
		next.generation = generation
		mustRun(t, rebuild.Config{Pool: pool, Projection: next, ChunkSize: 200})
		stopFollowing()
		stopFollowing = follow(t, pool, next)
	}
	awaitReads()
	close(stop)
	others.Wait()
	caughtUp(t, pool, p.name)
	wantRows(t, pool, p.name, int(appended.Load())+500)
	t.Logf("%d reads, %d comments", reads.Load(), appended.Load()+500)
}

// watch reads over and over, on a connection of its own, with a prepared statement.
func watch(t *testing.T, pool *pgxpool.Pool, reader int, sql string, stop <-chan struct{}, reads *atomic.Int64) {
	conn, err := pgx.ConnectConfig(context.Background(), pool.Config().ConnConfig)
	if err != nil {
		t.Errorf("connect: %v", err)
		return
	}
	defer func() { _ = conn.Close(context.Background()) }()
	lastGeneration, lastRows := 0, 0
	for {
		select {
		case <-stop:
			return
		default:
		}
		var generations, generation, rows int
		if err := conn.QueryRow(context.Background(), sql).Scan(&generations, &generation, &rows); err != nil {
			t.Errorf("reader %d: %v", reader, err)
			return
		}
		if generations != 1 || generation < lastGeneration || rows < lastRows {
			t.Errorf("reader %d: %d generations, generation %d after %d, %d rows after %d", reader, generations, generation,
				lastGeneration, rows, lastRows)
			return
		}
		lastGeneration, lastRows = generation, rows
		reads.Add(1)
	}
}

// describeSQL prints what belongs to a table and its views, by name.
const describeSQL = `SELECT string_agg(line, E'\n' ORDER BY line COLLATE "C") FROM (
	SELECT format('%s %s %s %s %s %s', c.oid::regclass, c.relkind, c.reloptions, c.relacl,
	    obj_description(c.oid, 'pg_class'), pg_get_userbyid(c.relowner)) AS line
	FROM pg_class AS c WHERE c.relname LIKE $1 AND c.relkind <> 'S'
	UNION ALL SELECT format('%s.%s %s %s %s %s', c.oid::regclass, a.attname, format_type(a.atttypid, a.atttypmod),
	    a.attnotnull, a.attacl, col_description(c.oid, a.attnum))
	FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
	    WHERE c.relname LIKE $1 AND c.relkind IN ('r', 'v')
	UNION ALL SELECT format('%s %s', x.conname, pg_get_constraintdef(x.oid))
	    || coalesce(obj_description(x.oid, 'pg_constraint'), '')
	FROM pg_class AS c JOIN pg_constraint AS x ON x.conrelid = c.oid WHERE c.relname LIKE $1
	UNION ALL SELECT pg_get_indexdef(i.indexrelid) FROM pg_class AS c JOIN pg_index AS i ON i.indrelid = c.oid
	    WHERE c.relname LIKE $1
	UNION ALL SELECT pg_get_viewdef(c.oid) FROM pg_class AS c WHERE c.relname LIKE $1 AND c.relkind = 'v'
	UNION ALL SELECT nspname::text FROM pg_namespace
) AS lines`

// TestTablesStayWhatTheyWere: names, indexes, constraints, storage parameters, comments, grants, views and views of
// views.
func TestTablesStayWhatTheyWere(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	p := newStamped(t, pool, "described")
	describe := func() string {
		return testdb.Value[string](t, pool, describeSQL, "described%")
	}
	before := describe()
	append1(t, pool, comments(seeded(1), "a", 50)...)
	for i := range 2 {
		mustRun(t, rebuild.Config{Pool: pool, Projection: p})
		if diff := cmp.Diff(before, describe()); diff != "" {
			t.Errorf("rebuild %d (-before +after):\n%s", i, diff)
		}
		wantRows(t, pool, p.name, 50)
	}
}

// A lock that somebody holds on the old tables delays the switch, and nobody else.
func TestSwitchWaitsForReaders(t *testing.T) {
	t.Parallel()
	pool := filled(t, "a", 50)
	long := testdb.Begin(t, pool)
	testdb.Exec(t, long, `SELECT count(*) FROM analytics.posts`)
	ended := start(rebuild.Config{Pool: pool, Projection: projections.Posts{}})
	var slowest time.Duration
	for begun := time.Now(); time.Since(begun) < 700*time.Millisecond; {
		at := time.Now()
		if n := count(t, pool, "posts"); n != 0 {
			t.Fatalf("the switch did not wait: %d posts", n)
		}
		slowest = max(slowest, time.Since(at))
	}
	select {
	case err := <-ended:
		t.Fatalf("the rebuild has ended: %v", err)
	default:
	}
	if slowest > time.Minute { // one that queues behind the switch waits for ever: the long transaction ends below
		t.Errorf("a reader waited for %v", slowest)
	}
	testdb.NoError(t, long.Commit(t.Context()))
	testdb.NoError(t, <-ended)
	wantRows(t, pool, "posts", 50)
}

// What would be lost in the switch is refused before anything is built.
func TestUnsupportedDependents(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"materialized view": `CREATE MATERIALIZED VIEW hanging AS SELECT post_id FROM posts`,
		"foreign key":       `CREATE TABLE hanging (post_id uuid REFERENCES posts)`,
		"trigger":           `CREATE TRIGGER hanging BEFORE TRUNCATE ON posts EXECUTE FUNCTION events_are_append_only()`,
		"function":          `CREATE FUNCTION hanging() RETURNS bigint BEGIN ATOMIC SELECT count(*) FROM posts; END`,
		"policy":            `CREATE POLICY hanging ON posts`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t)
			testdb.Exec(t, pool, statement)
			_, err := rebuild.Run(t.Context(), rebuild.Config{Pool: pool, Projection: projections.Posts{}, Logger: quiet()})
			if !errors.Is(err, rebuild.ErrUnsupported) || !strings.Contains(err.Error(), "hanging") {
				t.Errorf("got %v", err)
			}
		})
	}
}
