package database_test

import (
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"novelgate/internal/testdb"
)

// relay forwards TCP connections to a test database, whose server may only have a unix socket.
type relay struct {
	url             string // of the database, through the relay
	listener        net.Listener
	network, server string
	copying         sync.WaitGroup

	mu    sync.Mutex
	open  []net.Conn
	quiet *atomic.Bool // of connections made from now on
}

func newRelay(t *testing.T) *relay {
	t.Helper()
	direct := testdb.New(t)
	config, err := pgx.ParseConfig(direct)
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{quiet: &atomic.Bool{}}
	r.network, r.server = pgconn.NetworkAddress(config.Host, config.Port)
	if r.listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	parsed, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	query := parsed.Query()
	query.Del("host")
	query.Del("port")
	parsed.Host, parsed.RawQuery = r.listener.Addr().String(), query.Encode()
	r.url = parsed.String()

	r.copying.Go(r.accept)
	t.Cleanup(func() {
		_ = r.listener.Close()
		r.mu.Lock()
		for _, conn := range r.open {
			_ = conn.Close()
		}
		r.mu.Unlock()
		r.copying.Wait()
	})
	return r
}

// silence stops forwarding on the present connections and keeps them open. New ones work.
func (r *relay) silence() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.quiet.Store(true)
	r.quiet = &atomic.Bool{}
}

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial(r.network, r.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		r.mu.Lock()
		r.open = append(r.open, client, server)
		quiet := r.quiet
		r.mu.Unlock()
		r.copying.Go(func() { pass(client, server, quiet) })
		r.copying.Go(func() { pass(server, client, quiet) })
	}
}

func pass(from, to net.Conn, quiet *atomic.Bool) {
	buffer := make([]byte, 1<<14)
	for {
		n, err := from.Read(buffer)
		if quiet.Load() && err == nil {
			continue
		}
		if !quiet.Load() {
			if _, writeErr := to.Write(buffer[:n]); err != nil || writeErr != nil {
				_ = to.Close()
				return
			}
		}
		if err != nil {
			return
		}
	}
}
