package database_test

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/testdb"
)

// statement is a statement in every batch of the committer: a read, a grant of permits or an inline projection.
type statement struct {
	file, parameters, arguments string
	indexes                     []string // that its plan must use
	filters                     bool     // filters the few rows of an index probe
}

var statements = []statement{
	{
		file: "commands/committer/read_keys.sql", parameters: "uuid[], text[], uuid[], text[]",
		arguments: "ARRAY[gen_random_uuid()], ARRAY['key-1','no-key'], ARRAY[gen_random_uuid(),gen_random_uuid()], " +
			"ARRAY['novels','novels']",
		indexes: []string{"events_id_key", "events_stream_key"},
	},
	{
		file: "commands/committer/read_titles.sql", parameters: "text[], boolean[]",
		arguments: "ARRAY['title 1','no title'], ARRAY[true,false]",
		indexes:   []string{"title_lookup_pkey", "threads_pkey"},
	},
	{
		file: "commands/ratelimit/read.sql", parameters: "uuid[], text[], integer[]",
		arguments: "ARRAY[md5('1')::uuid,gen_random_uuid()], ARRAY['posts','novels'], ARRAY[1000,60]",
		indexes:   []string{"rate_limits_pkey"},
		filters:   true,
	},
	{
		file: "commands/ratelimit/grant.sql", parameters: "uuid[], text[], integer[], integer[]",
		arguments: "ARRAY[md5('1')::uuid,gen_random_uuid()], ARRAY['posts','novels'], ARRAY[1000,60], ARRAY[7,1]",
		indexes:   []string{"rate_limits_pkey"},
	},
	{
		file: "commands/committer/check.sql", parameters: "bigint, uuid, text, uuid[]",
		arguments: "5, gen_random_uuid(), '0', NULL",
		indexes:   []string{"events_pkey", "settings_pkey"},
		filters:   true,
	},
	{
		file: "commands/committer/read_slugs.sql", parameters: "text[]", arguments: "ARRAY['slug-1','no-slug']",
		indexes: []string{"title_lookup_slug_key"},
	},
	{
		file: "commands/committer/read_blocked.sql", parameters: "uuid[]",
		arguments: "ARRAY[md5('1')::uuid,md5('2')::uuid,gen_random_uuid()]",
		indexes:   []string{"author_decisions_blocked_idx"},
	},
	{
		file: "projections/titles_update.sql", parameters: "uuid[], text[], text[], uuid[], boolean[], integer[], text[]",
		arguments: "ARRAY[md5('1')::uuid,gen_random_uuid()], ARRAY['','Title'], ARRAY['rejected',''], " +
			"ARRAY[NULL,NULL]::uuid[], ARRAY[false,false], ARRAY[2,2], ARRAY['{}','{}']",
		indexes: []string{"title_lookup_novel_key"}, filters: true,
	},
}

// TestCommitterProbesIndexes: in a database that was never analysed, the statements are planned once, while it is
// empty. They must use index probes, then and when it has grown.
func TestCommitterProbesIndexes(t *testing.T) {
	t.Parallel()
	pools := open(t)
	early := prepare(t, pools.Append)
	for _, s := range statements {
		checkPlan(t, "empty", early, s)
	}
	grow(t, pools.General, 100_000)
	late := prepare(t, pools.Append)
	for _, s := range statements {
		checkPlan(t, "grown, planned while empty", early, s)
		checkPlan(t, "grown", late, s)
	}
}

// prepare returns a connection with the statements prepared.
func prepare(t *testing.T, pool *pgxpool.Pool) *pgx.Conn {
	t.Helper()
	conn := testdb.Must(pool.Acquire(t.Context()))(t)
	t.Cleanup(conn.Release)
	for _, s := range statements {
		text := testdb.Must(os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(s.file))))(t)
		testdb.Exec(t, conn, "PREPARE "+name(s)+" ("+s.parameters+") AS "+string(text))
	}
	return conn.Conn()
}

func name(s statement) string { return `"` + strings.TrimSuffix(path.Base(s.file), ".sql") + `"` }

func checkPlan(t *testing.T, when string, conn *pgx.Conn, s statement) {
	t.Helper()
	tx := testdb.Begin(t, conn) // ANALYZE writes what the statement writes
	defer func() { _ = tx.Rollback(t.Context()) }()
	lines := testdb.Values[string](t, tx,
		"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) EXECUTE "+name(s)+" ("+s.arguments+")",
		pgx.QueryExecModeSimpleProtocol)
	plan := strings.Join(lines, "\n")
	for _, bad := range []string{"Seq Scan", "Hash", "Merge", "Filter:"} {
		if strings.Contains(plan, bad) && (bad != "Filter:" || !s.filters) {
			t.Errorf("%s, %s: there is a %q:\n%s", s.file, when, bad, plan)
		}
	}
	for _, index := range s.indexes {
		// An index-only scan or a bitmap scan is a probe, too.
		if !strings.Contains(plan, "Index Scan using "+index+" on ") &&
			!strings.Contains(plan, "Index Only Scan using "+index+" on ") &&
			!strings.Contains(plan, "Index Only Scan Backward using "+index+" on ") &&
			!strings.Contains(plan, "Bitmap Index Scan on "+index) {
			t.Errorf("%s, %s: index %s is not probed:\n%s", s.file, when, index, plan)
		}
	}
}

func grow(t *testing.T, pool *pgxpool.Pool, rows int) {
	t.Helper()
	for _, statement := range []string{
		`INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, actor, batch_id)
		 SELECT n - 1, 'thread', gen_random_uuid(), 1, 'key-' || n, 'source', 'thread.opened.v1', '{}', 'test', gen_random_uuid() FROM generate_series(1, $1::int) n`,
		`INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, actor, batch_id)
		 SELECT $1::int + n - 1, 'novel', md5(n::text)::uuid, 1, 'key-' || n, 'novels', 'novel.created.v1', '{}', 'test', gen_random_uuid() FROM generate_series(1, 30) n`,
		`INSERT INTO title_lookup (folded_title, novel_id, slug, title, state, stream_version, details)
		 SELECT 'title ' || n, md5(n::text)::uuid, 'slug-' || n, 'Title ' || n, 'approved', 1, '{}' FROM generate_series(1, $1::int) n`,
		`INSERT INTO author_decisions (author_id, integration_id, external_uuid, member_id, blocked)
		 SELECT md5(n::text)::uuid, gen_random_uuid(), 'user-' || n, 'member-' || n, n % 2 = 0 FROM generate_series(1, $1::int) n`,
		`INSERT INTO rate_limits (integration_id, operation, granted_at, permits, total)
		 SELECT md5((n / 60)::text)::uuid, 'posts', now() - n % 60 * interval '1 second', 1, 61 - n % 60 FROM generate_series(1, $1::int) n`,
		`INSERT INTO threads (novel_id, thread_id) SELECT md5(n::text)::uuid, md5('t' || n)::uuid FROM generate_series(1, $1::int) n`,
	} {
		testdb.Exec(t, pool, statement, rows)
	}
}
