package database_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

func openGeneral(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool := testdb.Must(database.OpenGeneral(t.Context(), url))(t)
	t.Cleanup(pool.Close)
	return pool
}

// takeAll acquires all connections of a pool.
func takeAll(t *testing.T, pool *pgxpool.Pool) []*pgxpool.Conn {
	t.Helper()
	taken := make([]*pgxpool.Conn, pool.Config().MaxConns)
	for i := range taken {
		var err error
		if taken[i], err = pool.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return taken
}

// TestIdleConnectionsThatHaveGoneSilent: a pool does not hand them out, and detects them quickly.
func TestIdleConnectionsThatHaveGoneSilent(t *testing.T) {
	t.Parallel()
	r := newRelay(t)
	pool := openGeneral(t, r.url)
	for _, conn := range takeAll(t, pool) {
		conn.Release()
	}
	r.silence()
	time.Sleep(1100 * time.Millisecond) // the pool pings connections that were idle for a second
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := pool.Exec(ctx, `SELECT 1`); err != nil {
		t.Errorf("after all connections have gone silent: %v", err)
	}
}

// TestBusyConnectionsThatHaveGoneSilent: a statement on one gives up, and the pool opens a new connection long before
// the 15 seconds that pgx would wait for the silent one.
func TestBusyConnectionsThatHaveGoneSilent(t *testing.T) {
	t.Parallel()
	r := newRelay(t)
	pool := openGeneral(t, r.url)
	taken := takeAll(t, pool)
	r.silence()
	for _, conn := range taken {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := conn.Exec(ctx, `SELECT 1`); err == nil {
			t.Error("a silent connection has answered")
		}
		cancel()
		conn.Release()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
	defer cancel()
	if _, err := pool.Exec(ctx, `SELECT 1`); err != nil {
		t.Errorf("after all connections were given up: %v", err)
	}
}

// TestSilenceWhileASessionIsSetUp: a server that stops answering between the start of a session and its settings causes
// no long wait.
func TestSilenceWhileASessionIsSetUp(t *testing.T) {
	t.Parallel()
	listener := testdb.Must((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer listener.Close() //nolint:errcheck // a test's
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			backend := pgproto3.NewBackend(conn, conn)
			if _, err := backend.ReceiveStartupMessage(); err != nil {
				return
			}
			backend.Send(&pgproto3.AuthenticationOk{})
			backend.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{1, 2, 3, 4}})
			backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
			if backend.Flush() != nil {
				return
			}
		}
	}()
	pool := openGeneral(t, "postgres://nobody@"+listener.Addr().String()+"/nothing?sslmode=disable")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := pool.Exec(ctx, `SELECT 1`); err == nil || ctx.Err() != nil {
		t.Errorf("after a minute: %v", err)
	}
}

// TestServersAreAskedToNoticeSilence: sessions on a unix socket do not have these settings, so the test checks what
// clients send. Transactions of the service must not stay open when it is gone; whoever reads a command's output may
// stop for a while.
func TestServersAreAskedToNoticeSilence(t *testing.T) {
	t.Parallel()
	pools := open(t).Named()
	pools["command"] = openGeneral(t, testdb.New(t))
	for name, cutOff := range map[string]bool{"append": true, "general": true, "read": false, "command": false} {
		asked := startOfSession(t, pools[name])
		for _, want := range []string{
			`('tcp_keepalives_idle', '10s')`, `('tcp_keepalives_interval', '5s')`, `('tcp_keepalives_count', '2')`,
		} {
			if !strings.Contains(asked, want) {
				t.Errorf("%s: the session does not begin with %s:\n%s", name, want, asked)
			}
		}
		if strings.Contains(asked, "tcp_user_timeout") != cutOff {
			t.Errorf("%s: tcp_user_timeout is set: %t", name, !cutOff)
		}
	}
}

// startOfSession returns the bytes that a connection of a pool sends until it is ready.
func startOfSession(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	var sent strings.Builder
	config := pool.Config().ConnConfig
	config.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		frontend := pgproto3.NewFrontend(r, w)
		frontend.Trace(&sent, pgproto3.TracerOptions{SuppressTimestamps: true})
		return frontend
	}
	for name, value := range config.RuntimeParams {
		fmt.Fprintf(&sent, "%q %q\n", name, value)
	}
	conn := testdb.Must(pgx.ConnectConfig(t.Context(), config))(t)
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return sent.String()
}
