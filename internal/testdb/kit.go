package testdb

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/database"
)

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

// NoError ends the test if there is an error.
func NoError(t Failer, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
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
func Exec(t testing.TB, db database.Execer, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
}

// Value returns the single value of a query; the zero value when it has no row.
func Value[T any](t testing.TB, db database.Querier, sql string, args ...any) (value T) {
	t.Helper()
	rows, _ := db.Query(context.Background(), sql, args...) // CollectOneRow returns its error
	value, err := pgx.CollectOneRow(rows, pgx.RowTo[T])
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatalf("%v\n%s", err, sql)
	}
	return value
}

// Values returns the value of each row of a query.
func Values[T any](t testing.TB, db database.Querier, sql string, args ...any) []T {
	t.Helper()
	rows, _ := db.Query(context.Background(), sql, args...) // CollectRows returns its error
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
	return values
}

// Background runs work until stop is called or the test ends; both wait until work has returned.
func Background(t testing.TB, work func(context.Context)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { work(ctx); close(ended) }()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return stop
}

// Log keeps what is written to it, such as the lines of a logger, also by concurrent writers. The zero value is empty.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Logger returns a logger that writes lines of text to l.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// ReservePort returns a port of 127.0.0.1 at which nothing listens, so that connections are refused. Until the test
// ends, the system does not choose the port when a process asks for any free one. A server of the test may listen at
// it, also after it was stopped.
func ReservePort(t testing.TB) int {
	t.Helper()
	syscall.ForkLock.RLock()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(socket)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatalf("testdb: reserve a port: %v", os.NewSyscallError("socket", err))
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	// With this option, which listeners of Go have, too, Linux lets a socket listen beside one that is only bound.
	err = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err == nil {
		err = syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	var bound syscall.Sockaddr
	if err == nil {
		bound, err = syscall.Getsockname(socket)
	}
	address, ok := bound.(*syscall.SockaddrInet4)
	if err != nil || !ok {
		t.Fatalf("testdb: reserve a port: %v, %v", bound, err)
	}
	return address.Port
}
