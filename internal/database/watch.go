package database

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Watch watches the database connections of one command: whether the command waits for the database, and whether a
// change was left without an answer. Connections belong to it that are opened with the context of StartWatch, by any
// pool.
type Watch struct {
	say    func(cause string)
	cancel context.CancelFunc
	ended  chan struct{}

	unknown atomic.Bool // see OutcomeUnknown

	mu     sync.Mutex
	conns  map[*watchedConn]struct{}
	config *pgx.ConnConfig // of the newest connection
	polled map[int64]int   // advisory locks that a poll waits for
}

const (
	watchTick     = 500 * time.Millisecond
	watchPatience = 12              // ticks of waiting before a look, so that a word is said within ten seconds
	watchAgain    = 20              // ticks between looks
	lookTimeout   = 2 * time.Second // for one look
)

type watchKey struct{}

func watchOf(ctx context.Context) *Watch {
	w, _ := ctx.Value(watchKey{}).(*Watch)
	return w
}

// StartWatch watches the connections that are opened with the returned context, until Stop. When the command has waited
// for seconds, say gets what it waits for, and again when that changes.
func StartWatch(ctx context.Context, say func(cause string)) (context.Context, *Watch) {
	w := &Watch{
		say: say, ended: make(chan struct{}), conns: map[*watchedConn]struct{}{}, polled: map[int64]int{},
	}
	running, cancel := context.WithCancel(ctx)
	w.cancel = cancel
	go w.run(running)
	return context.WithValue(ctx, watchKey{}, w), w
}

// Stop ends the watch. No word is said afterwards.
func (w *Watch) Stop() {
	w.cancel()
	<-w.ended
}

// OutcomeUnknown reports whether the answer to a change has not arrived: the change may have been made or not.
func (w *Watch) OutcomeUnknown() bool { return w.unknown.Load() }

// MarkUnknown notes in the watch of a context that the answer to a change has not arrived. It is for changes that are
// not sent on a connection to the database.
func MarkUnknown(ctx context.Context) {
	if w := watchOf(ctx); w != nil {
		w.unknown.Store(true)
	}
}

// Polls says that the caller tries to get an advisory lock until the returned function is called. The server does not
// see that it waits.
func Polls(ctx context.Context, key int64) (done func()) {
	w := watchOf(ctx)
	if w == nil {
		return func() {}
	}
	count := func(change int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.polled[key] += change
	}
	count(1)
	return func() { count(-1) }
}

// watchedConn tells whether the program waits for the server: a client of PostgreSQL reads only when it expects an
// answer.
type watchedConn struct {
	net.Conn

	watch   *Watch
	address string
	session atomic.Int64 // process of the server; 0 until it is known
	calls   atomic.Int64 // begun and ended reads and dials: odd while one is going on
}

func (c *watchedConn) Read(p []byte) (int, error) {
	c.calls.Add(1)
	defer c.calls.Add(1)
	return c.Conn.Read(p)
}

func (c *watchedConn) Close() error {
	c.watch.forget(c)
	return c.Conn.Close()
}

func (w *Watch) forget(c *watchedConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
}

// watchConnections lets the watch in a context see the connections that config opens with that context.
func watchConnections(config *pgx.ConnConfig) {
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		w := watchOf(ctx)
		if w == nil {
			return dial(ctx, network, address)
		}
		c := &watchedConn{watch: w, address: address}
		c.calls.Add(1)
		w.mu.Lock()
		w.conns[c] = struct{}{}
		w.mu.Unlock()
		conn, err := dial(ctx, network, address)
		if err != nil {
			w.forget(c)
			return nil, err
		}
		c.Conn = conn
		c.calls.Add(1)
		return c, nil
	}
}

// opened notes which session of the server a connection has.
func (w *Watch) opened(config *pgx.ConnConfig, session *pgconn.PgConn, process int64) {
	conn := session.Conn()
	if encrypted, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = encrypted.NetConn()
	}
	if c, ok := conn.(*watchedConn); ok {
		c.session.Store(process)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.config = config.Copy()
}

// run looks at what the command waits for. A statement that is tried again, as one that waits for a lock is, waits in
// all attempts together.
func (w *Watch) run(ctx context.Context) {
	defer close(w.ended)
	ticker := time.NewTicker(watchTick)
	defer ticker.Stop()
	seen := map[*watchedConn]int64{} // calls at the last tick
	stuck := map[*watchedConn]int{}  // ticks within one call
	said, waiting, idle := "", 0, 0  // ticks of waiting, and in a row without
	for next := watchPatience; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		var waits []*watchedConn
		w.mu.Lock()
		polls := false
		for _, n := range w.polled {
			polls = polls || n > 0
		}
		for c := range w.conns {
			calls := c.calls.Load()
			if calls%2 == 1 && calls == seen[c] {
				stuck[c]++
				waits = append(waits, c)
			} else {
				delete(stuck, c)
			}
			seen[c] = calls
		}
		w.mu.Unlock()
		if len(waits) == 0 && !polls {
			if idle++; idle > 1 {
				waiting, next = 0, watchPatience
			}
			continue
		}
		idle = 0
		if waiting++; waiting < next {
			continue
		}
		next = waiting + watchAgain
		long := waits[:0:0]
		for _, c := range waits {
			if stuck[c] >= watchPatience {
				long = append(long, c)
			}
		}
		if cause := w.look(ctx, waits, long); cause != "" && cause != said && ctx.Err() == nil {
			said = cause
			w.say(cause)
		}
	}
}

//go:embed watch.sql
var watchSQL string

// look asks the server what the sessions of connections wait for, on another connection. long are those that have
// waited for one answer all the time.
func (w *Watch) look(ctx context.Context, waits, long []*watchedConn) (cause string) {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, watchKey{}, (*Watch)(nil)), lookTimeout)
	defer cancel()
	var sessions, patient, polled []int64
	w.mu.Lock()
	config := w.config
	for key, n := range w.polled {
		if n > 0 {
			polled = append(polled, key)
		}
	}
	own := make([]int64, 0, len(w.conns))
	for c := range w.conns {
		own = append(own, c.session.Load())
	}
	w.mu.Unlock()
	for _, c := range waits {
		sessions = append(sessions, c.session.Load())
	}
	for _, c := range long {
		if c.session.Load() == 0 {
			return "an answer of " + c.address
		}
		patient = append(patient, c.session.Load())
	}
	if config == nil {
		return ""
	}
	config = config.Copy()
	config.ConnectTimeout = lookTimeout
	conn, err := pgx.ConnectConfig(ctx, config)
	var causes []string
	if err == nil {
		defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // there is nothing to lose
		causes, err = Collect(ctx, conn, "waits", pgx.RowTo[string], watchSQL, pgx.QueryExecModeExec, sessions, patient,
			polled, own, int64(LogLock))
	}
	switch {
	case err == nil:
		return strings.Join(causes, "; ")
	case len(long) > 0:
		return fmt.Sprintf("an answer of %s (%s)", long[0].address, ErrorText(err))
	}
	return "" // the command itself will tell
}

// changes matches a statement that changes something when it is not in a transaction.
var changes = regexp.MustCompile(`(?im)^\s*(WITH|INSERT|UPDATE|DELETE|MERGE)\b`)

// changeTracer notes in the watch of a context the changes whose answer does not arrive.
type changeTracer struct{}

type changeKey struct{}

// TraceQueryStart marks the context of a commit, and that of a change outside of transactions.
func (changeTracer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if watchOf(ctx) == nil || data.SQL != "commit" && (conn.PgConn().TxStatus() != 'I' || !changes.MatchString(data.SQL)) {
		return ctx
	}
	return context.WithValue(ctx, changeKey{}, true)
}

// TraceQueryEnd notes a change that was sent, and to which the server has not said yes or no.
func (changeTracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	if ctx.Value(changeKey{}) != nil && outcomeUnknown(data.Err) {
		watchOf(ctx).unknown.Store(true)
	}
}
