package rebase_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/ledger"
	"novelgate/events/ledger/ledgertest"
	"novelgate/events/rebase"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// restored is a log that was restored into a cluster with smaller transaction ids.
type restored struct {
	*ledgertest.Ledger
	t     testing.TB
	batch int // events moved by one statement
}

func newRestored(t testing.TB) *restored { return &restored{Ledger: ledgertest.New(t), t: t, batch: 3} }

// append appends n events in one transaction, without sealing.
func (l *restored) append(n int) {
	l.t.Helper()
	l.Exec(`INSERT INTO events (position, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, actor, batch_id)
		SELECT i, 'thread', gen_random_uuid(), 1, gen_random_uuid()::text, 'elsewhere', 'thread.opened.v1', '{}', 'test', gen_random_uuid() FROM generate_series(0, $1::integer - 1) AS i`, n)
}

// shift makes all stored transaction ids, from one on, as large as those of another cluster.
func (l *restored) shift(from uint64) {
	l.t.Helper()
	rows, err := l.Pool.Query(l.t.Context(), `SELECT attrelid::regclass::text, attname FROM pg_attribute JOIN pg_class AS c ON c.oid = attrelid
		WHERE atttypid = 'xid8'::regtype AND attnum > 0 AND relkind = 'r' AND relnamespace <> 'pg_catalog'::regnamespace`)
	if err != nil {
		l.t.Fatal(err)
	}
	type column struct{ Table, Name string }
	columns, err := pgx.CollectRows(rows, pgx.RowToStructByPos[column])
	if err != nil {
		l.t.Fatal(err)
	}
	var updates []string
	for _, c := range columns {
		updates = append(updates,
			fmt.Sprintf(`UPDATE %[1]s SET %[2]s = (%[2]s::text::bigint + 4000000000000)::text::xid8 WHERE %[2]s >= '%[3]d'`,
				c.Table, c.Name, from))
	}
	l.Tamper(strings.Join(updates, ";\n"))
}

// rebase runs on the only connection.
func (l *restored) rebase(ctx context.Context, progress func(phase string, done, total int64)) (*rebase.Report, error) {
	l.t.Helper()
	l.Pool.Reset()
	//nolint:contextcheck // the test's is right
	testdb.Eventually(l.t, "all sessions have ended", func() bool {
		return l.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`) == 0
	})
	conn, err := l.Pool.Acquire(l.t.Context()) //nolint:contextcheck // Run may interrupt its own context
	if err != nil {
		l.t.Fatal(err)
	}
	defer conn.Release()
	return rebase.Run(ctx, rebase.Config{
		Conn: conn.Conn(), Now: time.Now, BatchEvents: l.batch, LockTimeout: 300 * time.Millisecond, Progress: progress,
	})
}

func (l *restored) mustRebase() *rebase.Report {
	l.t.Helper()
	report, err := l.rebase(l.t.Context(), nil)
	if err != nil {
		l.t.Fatal(err)
	}
	return report
}

// sign seals and signs everything.
func (l *restored) sign() ledger.Checkpoint {
	l.t.Helper()
	l.Sign()
	return l.Latest()
}

func (l *restored) count(sql string) int {
	l.t.Helper()
	return one[int](l.t, l.Pool, sql)
}

func one[T any](t testing.TB, pool *pgxpool.Pool, sql string) T {
	t.Helper()
	rows := testdb.Must(pool.Query(t.Context(), sql))(t)
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
	return value
}

// texts returns one column of text.
func (l *restored) texts(sql string) []string {
	l.t.Helper()
	rows, err := l.Pool.Query(l.t.Context(), sql)
	if err != nil {
		l.t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		l.t.Fatalf("%v\n%s", err, sql)
	}
	return list
}

// structureSQL shows the triggers and constraints of log and ledger.
const structureSQL = `SELECT string_agg(it, '; ' ORDER BY it) FROM (
    SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'public'::regnamespace
    UNION ALL SELECT tgrelid::regclass || ' ' || tgname || ' ' || tgenabled::text FROM pg_trigger WHERE NOT tgisinternal
) AS every (it)`

func (l *restored) structure() string {
	l.t.Helper()
	return one[string](l.t, l.Pool, structureSQL)
}

// digests returns a digest of every table, and structureSQL.
func (l *restored) digests() map[string]string {
	l.t.Helper()
	digests := map[string]string{"structure": l.structure()}
	for _, table := range l.texts(`SELECT c.oid::regclass::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace
		WHERE relkind = 'r' AND nspname NOT LIKE 'pg\_%' AND nspname <> 'information_schema'`) {
		digests[table] = one[string](l.t, l.Pool,
			`SELECT coalesce(md5(string_agg(t::text, ' ' ORDER BY t::text)), '') FROM `+table+` AS t`)
	}
	return digests
}

func (l *restored) isReadable() bool {
	l.t.Helper()
	return database.CheckLog(l.t.Context(), l.Pool) == nil
}
