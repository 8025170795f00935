package history_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/testdb"
	"novelgate/readapi/history"
)

// growSQL appends events of ten novels. Of each hundred, the first three are one stream, whose id is the MD5 of the
// number of the first; each other event has its own stream. $1: the first number; $2: the last plus 1.
const growSQL = `INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, integration_id, event_source,
    event_type, data, personal, batch_id, request_id)
SELECT n, CASE WHEN n % 100 < 3 THEN 'thread' ELSE 'post' END, CASE WHEN n % 100 < 3
    THEN md5((n / 100 * 100)::text)::uuid
    ELSE encode(substring(sha256(uuid_send(md5('i' || n % 5)::uuid) || convert_to('key ' || n, 'UTF8')) FOR 16),
        'hex')::uuid
    END, CASE WHEN n % 100 < 3
    THEN n % 100 + 1 ELSE 1 END,
       'key ' || n, md5('i' || n % 5)::uuid, 'posts', CASE WHEN n % 1000 = 0
           THEN 'novel.created.v1' ELSE 'post.imported.v1' END,
       json_build_object('novelId', md5('n' || n % 10)::uuid, 'threadId', md5('t' || n % 10)::uuid, 'writtenAt', now()),
       json_build_object('uuid', 'u' || n, 'username', 'Ada', 'content', repeat('word ', 30)),
       md5('b')::uuid, 'r' || n
FROM generate_series($1::int, $2::int - 1) n`

// grow appends events in a database that is never analysed, a thousand per transaction.
func grow(t testing.TB, pool *pgxpool.Pool, from, to int) {
	t.Helper()
	testdb.Exec(t, pool, `ALTER TABLE events SET (autovacuum_enabled = off)`)
	for ; from < to; from += 1000 {
		testdb.Exec(t, pool, growSQL, from, min(from+1000, to))
	}
}

func md5UUID(t testing.TB, pool *pgxpool.Pool, text string) uuid.NullUUID {
	t.Helper()
	id := testdb.Value[uuid.UUID](t, pool, `SELECT md5($1)::uuid`, text)
	return uuid.NullUUID{UUID: id, Valid: true}
}

// filters returns every kind of filter for the events of grow.
func filters(t testing.TB, pool *pgxpool.Pool) map[string]history.Filter {
	middle := int64(500)
	return map[string]history.Filter{
		"none":            {},
		"after":           {After: &middle},
		"before":          {Before: &middle},
		"stream":          {Stream: md5UUID(t, pool, "100")},
		"stream and type": {Stream: md5UUID(t, pool, "100"), Type: "post.imported.v1"},
		"stream type":     {StreamType: "novel"},
		"type":            {Type: "novel.created.v1"},
		"integration":     {Integration: md5UUID(t, pool, "i1")},
		"actor":           {Actor: "staff:ada", ActorID: md5UUID(t, pool, "i1")},
		"novel":           {Novel: md5UUID(t, pool, "n1")},
		"time": {
			From: new(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)), To: new(time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC)),
		},
		"correlation": {Correlation: "r77777777"},
	}
}

// TestPlansFollowAnIndex: in a database that was never analysed, no statement sorts or scans the whole log, whether it
// was planned on an empty log or on a long one.
func TestPlansFollowAnIndex(t *testing.T) {
	t.Parallel()
	pool := open(t)
	for _, size := range []int{0, 20_000} {
		grow(t, pool, 0, size)
		checkPlan(t, pool, "check", history.CheckSQL, []any{1 << 40, uuid.New()})
		for name, filter := range filters(t, pool) {
			if size == 0 {
				filter.After = nil // no event has this log index yet
			}
			reader := testdb.Must(history.NewReader(t.Context(), pool, filter))(t)
			end := testdb.Must(reader.End(t.Context()))(t)
			sql, args, lastSQL, lastArgs := reader.Statements(history.Cursor{}, end, 100)
			checkPlan(t, pool, name, sql, args)
			if lastSQL != "" {
				checkPlan(t, pool, name+", last row", lastSQL, lastArgs)
			}
		}
	}
}

func checkPlan(t *testing.T, pool *pgxpool.Pool, name, sql string, args []any) {
	t.Helper()
	for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
		plan := explain(t, pool, mode, sql, args)
		for _, bad := range []string{"Seq Scan", "Sort", "Bitmap", "Hash", "hashed", "Merge"} {
			if strings.Contains(plan, bad) {
				t.Errorf("%s, %s: there is a %q:\n%s\n%s", name, mode, bad, sql, plan)
			}
		}
		want := "Index Scan using events_pkey on events"
		if strings.HasPrefix(name, "stream") && name != "stream type" && !strings.HasPrefix(name, "stream type,") {
			want = "Index Scan using events_stream_key on events"
		}
		if only := strings.Replace(want, "Index Scan", "Index Only Scan", 1); !strings.Contains(plan, want) &&
			!strings.Contains(plan, only) {
			t.Errorf("%s, %s: no %q:\n%s\n%s", name, mode, want, sql, plan)
		}
	}
}

func explain(t testing.TB, pool *pgxpool.Pool, mode, sql string, args []any) string {
	t.Helper()
	tx := testdb.Begin(t, pool)
	defer tx.Rollback(context.Background()) //nolint:errcheck // it has only read
	// Without PREPARE, EXPLAIN would plan for the actual values.
	testdb.Exec(t, tx, "SET LOCAL plan_cache_mode = "+mode+"; PREPARE statement AS "+sql)
	places, values := make([]string, len(args)), []any{pgx.QueryExecModeSimpleProtocol}
	for i, arg := range args {
		if moment, ok := arg.(time.Time); ok {
			arg = moment.Format(time.RFC3339Nano)
		}
		places[i], values = fmt.Sprint("$", i+1), append(values, fmt.Sprint(arg))
	}
	plan := testdb.Values[string](t, tx,
		"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) EXECUTE statement ("+strings.Join(places, ", ")+")", values...)
	testdb.Exec(t, tx, "DEALLOCATE statement")
	return strings.Join(plan, "\n")
}
