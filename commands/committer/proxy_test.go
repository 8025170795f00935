package committer_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// proxy stands between a pool and the server. It cuts the client's stream into requests (all messages up to a Sync
// or a simple query) and does with each what its rule says.
type proxy struct {
	server string // socket file of the server
	socket string // socket file that clients connect to

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]struct{}
	rule     func(request) action
	wg       sync.WaitGroup
}

// request is what a client sends before it waits for an answer.
type request struct {
	appends bool // inserts into events
	commits bool // is the COMMIT of an explicit transaction
}

type action int

const (
	forward   action = iota
	cutBefore        // the server never sees it
	cutAfter         // the server carries it out, and the client never hears of it
	cutAtOnce        // the server gets it, and the client is cut off meanwhile
	swallow          // neither side hears anything more on this connection
)

// newProxy returns a proxy and the URL of the same database behind it.
func newProxy(t testing.TB, databaseURL string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatalf("parse URL: %v", err)
	}
	dir, err := os.MkdirTemp("", "ng") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatalf("make directory: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	query := u.Query()
	port := query.Get("port")
	if port == "" {
		port = "5432"
	}
	p := &proxy{
		server: filepath.Join(query.Get("host"), ".s.PGSQL."+port), socket: filepath.Join(dir, ".s.PGSQL."+port),
		conns: map[net.Conn]struct{}{}, rule: func(request) action { return forward },
	}
	query.Set("host", dir)
	u.RawQuery = query.Encode()
	p.listen(t)
	t.Cleanup(func() {
		p.refuse()
		p.wg.Wait()
	})
	return p, u.String()
}

func (p *proxy) listen(t testing.TB) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", p.socket)
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	p.mu.Lock()
	p.listener = listener
	p.mu.Unlock()
	p.wg.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(client) })
		}
	})
}

// refuse closes all connections and accepts no new ones.
func (p *proxy) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.listener.Close()
	for conn := range p.conns {
		_ = conn.Close()
	}
}

// set makes rule decide from now on. It is called by one goroutine at a time.
func (p *proxy) set(rule func(request) action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = rule
}

func appends(r request) bool { return r.appends }
func commits(r request) bool { return r.commits }

func (p *proxy) judge(r request) action {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rule(r)
}

func (p *proxy) keep(conns ...net.Conn) (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		p.conns[conn] = struct{}{}
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, conn := range conns {
			_ = conn.Close()
			delete(p.conns, conn)
		}
	}
}

// serve passes one connection on.
func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("unix", p.server)
	if err != nil {
		_ = client.Close()
		return
	}
	release := p.keep(client, server)
	defer release()
	answers := &answers{to: client}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		_, _ = io.Copy(answers, server)
		_ = client.Close()
		_ = server.Close()
	})
	defer func() { _ = server.Close() }()
	reader := &requestReader{from: client, inserts: map[string]bool{}}
	for {
		r, raw, err := reader.next()
		if err != nil {
			return
		}
		switch a := p.judge(r); a {
		case cutBefore:
			return
		case cutAfter:
			carriedOut := answers.hide()
			_, _ = server.Write(raw)
			<-carriedOut
			return
		case cutAtOnce:
			answers.hide()
			_, _ = server.Write(raw)
			_ = client.Close()
			return
		case swallow:
			_, _ = io.Copy(io.Discard, client)
			return
		case forward:
			if _, err := server.Write(raw); err != nil {
				return
			}
		}
	}
}

// answers passes the server's answers on until they are hidden.
type answers struct {
	to     io.Writer
	mu     sync.Mutex
	hidden chan struct{} // closed when the next answer is complete
	closed bool
}

func (a *answers) hide() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hidden = make(chan struct{})
	return a.hidden
}

func (a *answers) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hidden == nil {
		return a.to.Write(b) //nolint:wrapcheck // a pipe
	}
	// The answer to a request ends with ReadyForQuery: 'Z', length 5, status.
	if n := len(b); n >= 6 && b[n-6] == 'Z' && !a.closed {
		a.closed = true
		close(a.hidden)
	}
	return len(b), nil
}

// requestReader reads the frontend side of the PostgreSQL protocol (version 3).
type requestReader struct {
	from    io.Reader
	started bool
	inserts map[string]bool // prepared statements that insert into events
}

func (r *requestReader) next() (request, []byte, error) {
	var req request
	var raw []byte
	if !r.started {
		r.started = true
		head := make([]byte, 4)
		_, body, err := r.message(head)
		return req, slices.Concat(head, body), err
	}
	for {
		head := make([]byte, 5)
		kind, body, err := r.message(head)
		if err != nil {
			return req, nil, err
		}
		raw = append(append(raw, head...), body...)
		switch kind {
		case 'P': // Parse: name, query
			name, query, _ := bytes.Cut(body, []byte{0})
			r.inserts[string(name)] = bytes.Contains(query, []byte("INSERT INTO events"))
		case 'B': // Bind: portal, statement
			_, rest, _ := bytes.Cut(body, []byte{0})
			name, _, _ := bytes.Cut(rest, []byte{0})
			req.appends = req.appends || r.inserts[string(name)]
		case 'Q':
			req.commits = bytes.HasPrefix(bytes.ToLower(body), []byte("commit"))
			return req, raw, nil
		case 'S', 'X', 'p':
			return req, raw, nil
		default:
		}
	}
}

// message reads one message: its head, which ends with the length, and its body.
func (r *requestReader) message(head []byte) (kind byte, body []byte, err error) {
	if _, err := io.ReadFull(r.from, head); err != nil {
		return 0, nil, err //nolint:wrapcheck // a pipe
	}
	body = make([]byte, binary.BigEndian.Uint32(head[len(head)-4:])-4)
	_, err = io.ReadFull(r.from, body)
	return head[0], body, err //nolint:wrapcheck // a pipe
}
