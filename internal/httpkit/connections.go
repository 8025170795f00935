package httpkit

import (
	"container/list"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Connections limits the open connections of one server, and the memory of each: header fields, and bytes in the
// kernel. Create it with NewConnections.
//
// At the limit, new connections queue up to be accepted. To make room for the first in the queue, Connections closes
// the open connection that has waited longest for its client (to send a request or body, or to read an answer), once it
// has waited for half a second. The answer to a request that arrives meanwhile also closes its connection: otherwise
// clients that send each request right after the last answer would keep all connections.
type Connections struct {
	prometheus.GaugeFunc

	open chan struct{} // one slot for each connection
	full atomic.Bool   // a new connection waits for a slot

	mu      sync.Mutex
	waiting *list.List                 // of waitingConn, in the order of startWaiting
	places  map[net.Conn]*list.Element // elements of waiting
	wanted  bool                       // a new connection waits for a slot, and none is being closed for it
}

// waitingConn is a connection that waits for its client.
type waitingConn struct {
	net.Conn
	since time.Time // start of the wait; for a body, of its first read
}

// minWait is the shortest wait after which a connection is closed for a new one. It protects a connection whose request
// or answer is in transit.
const minWait = 500 * time.Millisecond

// Bytes that the kernel buffers for receiving and sending. Linux takes up to twice that in memory. With the larger
// default of the kernel, the handler of an answer of two megabytes ended before the client had read any of it, and
// ReadLimit no longer counted the answer. With half of this sendBuffer, such an answer takes 0.8 s instead of 13 ms
// over the loopback interface.
const (
	receiveBuffer = 32 << 10
	sendBuffer    = 64 << 10
)

// NewConnections returns Connections for up to most open connections.
func NewConnections(most int) *Connections {
	c := &Connections{open: make(chan struct{}, most), waiting: list.New(), places: map[net.Conn]*list.Element{}}
	c.GaugeFunc = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "novelgate_connections", Help: "Open connections of partners, staff, auditors and readers.",
	}, func() float64 { return float64(len(c.open)) })
	return c
}

// Serve serves a listener within the limit, as http.Server.Serve does. Call it once.
func (c *Connections) Serve(server *http.Server, listener net.Listener) error {
	server.ConnState = c.setState
	server.Handler = c.makeFair(server.Handler)
	return server.Serve(&boundedListener{Listener: listener, connections: c, closed: make(chan struct{})})
}

// makeFair closes a connection after its answer if a new one waits for a slot, and lets other goroutines run after each
// answer. Otherwise a connection with pipelined requests keeps its processor for 10 ms: 800 such connections delayed a
// comment of another client by 4 s on a busy machine, and by 1 s with this function.
func (c *Connections) makeFair(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.full.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
		runtime.Gosched()
	})
}

// setState follows the state of a connection.
func (c *Connections) setState(conn net.Conn, state http.ConnState) {
	if conn, ok := conn.(*headerConn); ok {
		conn.setState(state)
	}
	if state == http.StateNew || state == http.StateIdle {
		c.startWaiting(conn, time.Now()) //nolint:forbidigo // the clock of the connection
	} else {
		c.stopWaiting(conn)
	}
	if state == http.StateClosed || state == http.StateHijacked {
		<-c.open // frees its slot
	}
}

// startWaiting records that a connection waits for its client.
func (c *Connections) startWaiting(conn net.Conn, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(conn)
	c.places[conn] = c.waiting.PushBack(waitingConn{conn, since})
	if c.waiting.Len() == 1 { // otherwise an earlier one goes first
		c.freeSlot()
	}
}

// stopWaiting records that a connection no longer waits for its client.
func (c *Connections) stopWaiting(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(conn)
}

func (c *Connections) remove(conn net.Conn) {
	if place := c.places[conn]; place != nil {
		c.waiting.Remove(place)
		delete(c.places, conn)
	}
}

// freeSlot closes the first connection in waiting if a new one needs its slot, now or once it has waited for minWait.
// The server then reports the closed connection to setState. The caller holds c.mu.
func (c *Connections) freeSlot() {
	first := c.waiting.Front()
	if !c.wanted || first == nil {
		return
	}
	conn, _ := first.Value.(waitingConn)
	if early := minWait - time.Since(conn.since); early > 0 {
		time.AfterFunc(early, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.freeSlot()
		})
		return
	}
	c.wanted = false
	_ = conn.Close()
}

// boundedListener accepts connections while there are free slots.
type boundedListener struct {
	net.Listener
	connections *Connections
	close       sync.Once
	closed      chan struct{}
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err // net/http expects the error unwrapped
	}
	c := l.connections
	select {
	case c.open <- struct{}{}:
		return c.newConn(conn), nil
	default:
	}
	// At the limit: have a connection closed, and wait for its slot.
	c.full.Store(true)
	defer c.full.Store(false)
	c.mu.Lock()
	c.wanted = true
	c.freeSlot()
	c.mu.Unlock()
	select {
	case c.open <- struct{}{}:
		c.mu.Lock()
		c.wanted = false
		c.mu.Unlock()
		return c.newConn(conn), nil
	case <-l.closed:
		_ = conn.Close()
		return nil, net.ErrClosed
	}
}

// newConn limits the memory of a connection.
func (c *Connections) newConn(conn net.Conn) net.Conn {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(receiveBuffer) // fails only when the connection is closed
		_ = tcp.SetWriteBuffer(sendBuffer)
	}
	return &headerConn{Conn: conn, connections: c}
}

// Close implements net.Listener.
func (l *boundedListener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.Listener.Close() // net/http expects the error unwrapped
}
