package database_test

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

// dialled makes config report its connections.
func dialled(config *pgx.ConnConfig) <-chan net.Conn {
	conns := make(chan net.Conn, 100)
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil {
			conns <- conn
		}
		return conn, err
	}
	return conns
}

func TestConnectionsNoticeSilence(t *testing.T) {
	t.Parallel()
	url := newRelay(t).url
	pools := testdb.Must(database.Open(t.Context(), url))(t)
	t.Cleanup(pools.Close)
	conns := map[string]net.Conn{}
	for name, pool := range pools.Named() {
		conn := testdb.Must(pool.Acquire(t.Context()))(t)
		defer conn.Release()
		conns[name] = conn.Conn().PgConn().Conn()
	}

	config := pools.General.Config().ConnConfig
	made := dialled(config)
	reading := testdb.Must(eventlog.Connect(t.Context(), config))(t)
	defer reading.Close(context.Background()) //nolint:errcheck // it only read
	conns["reading"] = latest(made)

	listening, stop := context.WithCancel(t.Context())
	ended, heard := make(chan struct{}), make(chan struct{}, 1)
	go func() {
		defer close(ended)
		database.Listen(listening, config, slog.New(slog.DiscardHandler), "one", func(string) { heard <- struct{}{} })
	}()
	defer func() { stop(); <-ended }()
	<-heard
	conns["listening"] = latest(made)

	for name, conn := range conns {
		tcp, ok := conn.(*net.TCPConn)
		if !ok {
			t.Fatalf("%s: a connection of type %T", name, conn)
		}
		for _, option := range []struct {
			name                string
			level, option, want int
		}{
			{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
			{"TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 10},
			{"TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 5},
			{"TCP_KEEPCNT", unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 2},
			{"TCP_USER_TIMEOUT", unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 20_000},
		} {
			if got := socketOption(t, tcp, option.level, option.option); got != option.want {
				t.Errorf("%s: %s is %d, want %d", name, option.name, got, option.want)
			}
		}
	}
}

// latest returns the connection in use: earlier ones may be failed attempts with TLS.
func latest(made <-chan net.Conn) (conn net.Conn) {
	for conn = <-made; len(made) > 0; {
		conn = <-made
	}
	return conn
}

func socketOption(t *testing.T, conn *net.TCPConn, level, option int) (value int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	controlErr := raw.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), level, option) })
	if controlErr != nil || err != nil {
		t.Fatal(controlErr, err)
	}
	return value
}
