package e2e_test

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"novelgate/internal/testdb"
)

// wire forwards connections.
type wire struct {
	still sync.RWMutex // held for writing while nothing passes, and nothing is closed or refused
	all   sync.WaitGroup

	mu        sync.Mutex
	listeners []net.Listener
	cut       bool              // accepts no connections
	conns     map[net.Conn]bool // open connections of both sides
}

// forward accepts connections at an address, and forwards each to a server.
func (w *wire) forward(t testing.TB, network, address string, dial func() (net.Conn, error)) {
	t.Helper()
	listener := testdb.Must(net.Listen(network, address))(t)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listeners, w.cut = append(w.listeners, listener), false
	if w.conns == nil {
		w.conns = map[net.Conn]bool{}
	}
	w.all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed
			}
			w.all.Go(func() { w.serve(client, dial) })
		}
	})
}

func (w *wire) serve(client net.Conn, dial func() (net.Conn, error)) {
	defer func() { _ = client.Close() }()
	w.still.RLock()
	server, err := dial()
	w.still.RUnlock()
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	w.mu.Lock()
	cut := w.cut // while it connected to the server
	if !cut {
		w.conns[client], w.conns[server] = true, true
	}
	w.mu.Unlock()
	if cut {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { w.copy(client, server) })
	w.copy(server, client)
	both.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, client)
	delete(w.conns, server)
}

// copy copies until an end closes; then it closes both.
func (w *wire) copy(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		w.still.RLock()
		if n > 0 {
			if _, writing := to.Write(buffer[:n]); writing != nil {
				err = writing
			}
		}
		if err != nil {
			_, _ = from.Close(), to.Close()
		}
		w.still.RUnlock()
		if err != nil {
			return
		}
	}
}

// Cut closes every connection and accepts no new ones, as during an outage.
func (w *wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
	for _, listener := range w.listeners {
		_ = listener.Close()
	}
	for conn := range w.conns {
		_ = conn.Close()
	}
}

// Proxy is between a service and its database, to cut the database off from this service.
type Proxy struct {
	wire

	URL    string // of the same database, through the proxy
	socket string // to which the service connects

	mu     sync.Mutex
	target *url.URL
}

// NewProxy returns a proxy that forwards everything. It is closed when the test ends.
func NewProxy(t testing.TB, databaseURL string) *Proxy {
	t.Helper()
	dir := testdb.Must(os.MkdirTemp("", "ng"))(t) // t.TempDir is too long for a socket
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &Proxy{}
	p.Point(t, databaseURL)
	_, _, port := addressOf(p.target)
	p.socket = filepath.Join(dir, ".s.PGSQL."+port)
	through, query := *p.target, p.target.Query()
	query.Set("host", dir)
	query.Set("port", port)
	through.Host, through.RawQuery = "", query.Encode()
	p.URL = through.String()
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
	u := testdb.Must(url.Parse(databaseURL))(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = u
}

// Mend accepts connections again.
func (p *Proxy) Mend(t testing.TB) {
	t.Helper()
	p.forward(t, "unix", p.socket, func() (net.Conn, error) {
		p.mu.Lock()
		network, address, _ := addressOf(p.target)
		p.mu.Unlock()
		return net.Dial(network, address)
	})
}
