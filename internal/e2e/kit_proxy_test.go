package e2e_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Proxy is between a service and its database, to cut the database, or its notifications, off from this service.
type Proxy struct {
	URL string // of the same database, through the proxy

	socket string // to which the service connects

	mu              sync.Mutex
	network, server string // address of the database
	listener        net.Listener
	cut             bool // accepts no connections
	conns           map[net.Conn]struct{}
	deaf            bool
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

// Deafen drops the output of the database on connections that have sent LISTEN: they stay open without notifications.
func (p *Proxy) Deafen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = true
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
	c := &proxied{proxy: p, client: client, server: server}
	var both sync.WaitGroup
	for _, half := range []func() error{c.upstream, c.downstream} {
		both.Go(func() {
			_ = half() // one side has closed, so close the other
			_ = client.Close()
			_ = server.Close()
		})
	}
	both.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, client)
	delete(p.conns, server)
}

// proxied is one connection.
type proxied struct {
	proxy          *Proxy
	client, server net.Conn
	listens        bool // guarded by proxy.mu
}

func (c *proxied) upstream() error {
	return each(c.client, func(b []byte) error {
		if bytes.Contains(b, []byte("LISTEN ")) {
			c.proxy.mu.Lock()
			c.listens = true
			c.proxy.mu.Unlock()
		}
		_, err := c.server.Write(b)
		return err
	})
}

func (c *proxied) downstream() error {
	return each(c.server, func(b []byte) error {
		c.proxy.mu.Lock()
		swallow := c.listens && c.proxy.deaf
		c.proxy.mu.Unlock()
		if swallow {
			return nil
		}
		_, err := c.client.Write(b)
		return err
	})
}

// each passes the bytes of r on, piece by piece, until it ends.
func each(r io.Reader, take func([]byte) error) error {
	buffer := make([]byte, 32<<10)
	for {
		n, err := r.Read(buffer)
		if n > 0 {
			if err := take(buffer[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}
