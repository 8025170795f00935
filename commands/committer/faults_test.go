package committer_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// faults injects faults between a pool and the server. Its rule decides for each request.
type faults struct {
	tracer
	dial pgconn.DialFunc

	mu      sync.Mutex
	rule    func(request) action
	refused bool
	wires   []*wire
}

// request is what a client sends before it waits for an answer. The zero request opens a connection.
type request struct {
	begins  bool // is the first round trip of a transaction
	appends bool // inserts into events
	commits bool // is the last round trip of a transaction
}

func begins(r request) bool  { return r.begins }
func appends(r request) bool { return r.appends }

type action int

const (
	forward   action = iota
	cutBefore        // the server never sees it
	cutAfter         // the server executes it, and the answer is lost
	cutAtOnce        // the server gets it, and the connection is cut
	swallow          // neither side receives anything more on this connection
)

// newFaultyPool returns a pool whose connections have faults; there are none until a rule is set.
func newFaultyPool(t testing.TB, url string) (*faults, *pgxpool.Pool) {
	t.Helper()
	f := &faults{rule: func(request) action { return forward }}
	f.start = func(conn *pgx.Conn, sql ...string) {
		r := request{begins: sql[0] == "begin", commits: sql[len(sql)-1] == "commit"}
		for _, statement := range sql {
			r.appends = r.appends || strings.Contains(statement, "INSERT INTO events")
		}
		if w, ok := conn.PgConn().Conn().(*wire); ok {
			w.next = f.judge(r)
		}
	}
	t.Cleanup(func() { f.refuse(true) }) // otherwise the test waits for cancel requests that were swallowed
	return f, newPool(t, url, func(config *pgxpool.Config) {
		f.dial = config.ConnConfig.DialFunc
		config.ConnConfig.Tracer, config.ConnConfig.DialFunc = f, f.connect
	})
}

// set sets the rule. One goroutine at a time may call it.
func (f *faults) set(rule func(request) action) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rule = rule
}

func (f *faults) judge(r request) action {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rule(r)
}

// refuse(true) closes all connections and refuses new ones until refuse(false).
func (f *faults) refuse(refused bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused = refused
	for _, w := range f.wires {
		_ = w.Close()
	}
	f.wires = nil
}

func (f *faults) connect(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := f.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: conn, now: f.judge(request{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refused {
		_ = conn.Close()
		return nil, errors.New("connection refused")
	}
	f.wires = append(f.wires, w)
	return w, nil
}

// wire is a connection with faults. pgx may read from it while it writes.
type wire struct {
	net.Conn
	next action // begins when the statements are sent, which may have to be prepared first

	mu  sync.Mutex
	now action
}

func (w *wire) action() action {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// Write sends messages. The first is a Bind or a simple query when statements are executed.
func (w *wire) Write(b []byte) (int, error) {
	if b[0] == 'B' || b[0] == 'Q' {
		w.mu.Lock()
		w.now, w.next = max(w.now, w.next), forward
		w.mu.Unlock()
	}
	switch w.action() {
	case cutBefore:
		_ = w.Close()
		return len(b), nil
	case swallow:
		return len(b), nil
	default:
		return w.Conn.Write(b)
	}
}

func (w *wire) Read(b []byte) (int, error) {
	n, err := 0, error(nil)
	if w.action() != cutAtOnce {
		n, err = w.Conn.Read(b)
	}
	switch w.action() { // the rule may have changed during the read
	case cutAfter:
		// ReadyForQuery ends the answer: 'Z', length 5, status.
		for answer := b[:n:n]; err == nil && (len(answer) < 6 || answer[len(answer)-6] != 'Z'); {
			n, err = w.Conn.Read(b)
			answer = append(answer, b[:n]...)
		}
		fallthrough
	case cutBefore, cutAtOnce:
		_ = w.Close()
		return 0, io.EOF
	default:
		return n, err
	}
}

// tracer calls start for each round trip of a pool whose statements are prepared, and for each preparation.
type tracer struct {
	start func(conn *pgx.Conn, sql ...string)
}

func (t *tracer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	t.start(conn, data.SQL)
	return ctx
}

func (t *tracer) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	var sql []string
	for _, statement := range data.Batch.QueuedQueries {
		sql = append(sql, statement.SQL)
	}
	t.start(conn, sql...)
	return ctx
}

func (t *tracer) TracePrepareStart(ctx context.Context, conn *pgx.Conn, _ pgx.TracePrepareStartData) context.Context {
	t.start(conn, "")
	return ctx
}

func (*tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData)     {}
func (*tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*tracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}
func (*tracer) TracePrepareEnd(context.Context, *pgx.Conn, pgx.TracePrepareEndData) {}
