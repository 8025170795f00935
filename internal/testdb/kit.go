package testdb

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Execer is a pool, a connection or a transaction that executes statements.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Querier is a pool, a connection or a transaction that queries.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Failer is a test, also one of rapid.
type Failer interface {
	Helper()
	Fatal(args ...any)
}

// Must returns the value of a call that must not fail: Must(call(…))(t).
func Must[T any](value T, err error) func(Failer) T {
	return func(t Failer) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// Pool returns a pool on a database. It is closed when the test ends.
func Pool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		t.Fatalf("open pool: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Connect returns a connection to a database. It is closed when the test ends.
func Connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// Begin begins a transaction. It is rolled back when the test ends, unless it has ended before.
func Begin(t testing.TB, db interface {
	Begin(ctx context.Context) (pgx.Tx, error)
},
) pgx.Tx {
	t.Helper()
	tx, err := db.Begin(context.Background())
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// Exec executes a statement.
func Exec(t testing.TB, db Execer, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
}

// Value returns the single value of a query; the zero value when it has no row.
func Value[T any](t testing.TB, db Querier, sql string, args ...any) (value T) {
	t.Helper()
	rows, _ := db.Query(context.Background(), sql, args...) // CollectOneRow returns its error
	value, err := pgx.CollectOneRow(rows, pgx.RowTo[T])
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatalf("%v\n%s", err, sql)
	}
	return value
}

// Values returns the value of each row of a query.
func Values[T any](t testing.TB, db Querier, sql string, args ...any) []T {
	t.Helper()
	rows, _ := db.Query(context.Background(), sql, args...) // CollectRows returns its error
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
	return values
}
