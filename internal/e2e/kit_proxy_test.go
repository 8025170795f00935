package e2e_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Proxy is between a service and its database, to cut the database off from this service.
type Proxy struct {
	URL string // of the same database, through the proxy

	socket string // to which the service connects

	mu              sync.Mutex
	network, server string // address of the database
	listener        net.Listener
	cut             bool // accepts no connections
	conns           map[net.Conn]struct{}
	all             sync.WaitGroup
}

// NewProxy returns a proxy that forwards everything. It is closed when the test ends.
func NewProxy(t testing.TB, databaseURL string) *Proxy {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatalf("parse database URL: %v", err)
	}
	dir, err := os.MkdirTemp("", "ng") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatalf("make directory: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &Proxy{conns: map[net.Conn]struct{}{}}
	var port string
	p.network, p.server, port = addressOf(u)
	p.socket = filepath.Join(dir, ".s.PGSQL."+port)
	query := u.Query()
	query.Set("host", dir)
	query.Set("port", port)
	u.Host, u.RawQuery = "", query.Encode()
	p.URL = u.String()
	p.Mend(t)
	t.Cleanup(func() {
		p.Cut()
		p.all.Wait()
	})
	return p
}

// addressOf returns the address of the server of a database.
func addressOf(u *url.URL) (network, address, port string) {
	port = "5432"
	if host := u.Query().Get("host"); filepath.IsAbs(host) {
		if u.Query().Get("port") != "" {
			port = u.Query().Get("port")
		}
		return "unix", filepath.Join(host, ".s.PGSQL."+port), port
	}
	if u.Port() != "" {
		port = u.Port()
	}
	return "tcp", net.JoinHostPort(u.Hostname(), port), port
}

// Point makes new connections go to a database of the same name on another server.
func (p *Proxy) Point(t testing.TB, databaseURL string) {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatalf("parse database URL: %v", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.network, p.server, _ = addressOf(u)
}

// Mend accepts connections again.
func (p *Proxy) Mend(t testing.TB) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", p.socket)
	if err != nil {
		t.Fatalf("listen for the service: %v", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener, p.cut = listener, false
	p.all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.all.Go(func() { p.serve(client) })
		}
	})
}

// Cut closes every connection and accepts no new ones, as during an outage.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	_ = p.listener.Close()
	for conn := range p.conns {
		_ = conn.Close()
	}
}

func (p *Proxy) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	p.mu.Lock()
	network, address := p.network, p.server
	p.mu.Unlock()
	server, err := (&net.Dialer{}).DialContext(context.Background(), network, address)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	p.mu.Lock()
	cut := p.cut // while it connected to the database
	if !cut {
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	}
	p.mu.Unlock()
	if cut {
		return
	}
	var both sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{client: server, server: client} {
		both.Go(func() {
			_, _ = io.Copy(to, from)
			_ = client.Close() // one side has closed, so close the other
			_ = server.Close()
		})
	}
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
	delete(p.conns, server)
}
