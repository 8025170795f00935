package httpkit

import (
	"container/list"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Connections bounds the open connections of one server, and what each may hold: header fields, and bytes in the
// kernel. When there are as many as may be, the one that has waited longest for its client, to send a request or its
// body or to take an answer, is closed for a new one, if that is half a second. While the service works on the requests
// of all others, new ones wait to be accepted, in the order in which they came, and the answers to requests that arrive
// meanwhile close their connections. Otherwise clients that repeat a request as soon as it is answered would keep all
// places. Create it with NewConnections.
type Connections struct {
	prometheus.GaugeFunc

	open chan struct{} // a place for each
	full atomic.Bool   // a new one waits for a place

	mu      sync.Mutex
	waiting *list.List                 // of waitingConn, the one that has waited longest in front
	places  map[net.Conn]*list.Element // in waiting
	wanted  bool                       // a new one waits, and none is being closed for it
}

// waitingConn is a connection that waits for its client.
type waitingConn struct {
	net.Conn
	since time.Time
}

// leastWait keeps a connection whose request or answer is on its way.
const leastWait = 500 * time.Millisecond

// The bytes that the kernel holds of what a client has sent, and of what it has not taken. Linux takes up to twice that
// in memory. By default an answer of two megabytes left its handler, and the bounds on Readers, before the client had
// read any of it. With half of sendBuffer such an answer takes 0.8 s over the loopback interface rather than 13 ms.
const (
	receiveBuffer = 32 << 10
	sendBuffer    = 64 << 10
)

// NewConnections returns Connections with a limit on open ones.
func NewConnections(most int) *Connections {
	c := &Connections{open: make(chan struct{}, most), waiting: list.New(), places: map[net.Conn]*list.Element{}}
	c.GaugeFunc = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "novelgate_connections", Help: "Open connections of partners, staff, auditors and readers.",
	}, func() float64 { return float64(len(c.open)) })
	return c
}

// Serve lets a server serve a listener within the bound, as http.Server.Serve does. It is called once.
func (c *Connections) Serve(server *http.Server, listener net.Listener) error {
	server.ConnState = c.note
	server.Handler = c.closeWhenFull(server.Handler)
	return server.Serve(&boundedListener{Listener: listener, connections: c, closed: make(chan struct{})}) //nolint:wrapcheck // it stands for it
}

// closeWhenFull lets an answer close its connection if a new one waits for a place.
func (c *Connections) closeWhenFull(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.full.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// note keeps track of a connection.
func (c *Connections) note(conn net.Conn, state http.ConnState) {
	if conn, ok := conn.(*headerConn); ok {
		conn.note(state)
	}
	if state == http.StateNew || state == http.StateIdle {
		c.startWaiting(conn, time.Now()) //nolint:forbidigo // the clock of the connection
	} else {
		c.stopWaiting(conn)
	}
	if state == http.StateClosed || state == http.StateHijacked {
		<-c.open
	}
}

// startWaiting notes that a connection waits for its client, since a moment.
func (c *Connections) startWaiting(conn net.Conn, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(conn)
	c.places[conn] = c.waiting.PushBack(waitingConn{conn, since})
	if c.waiting.Len() == 1 { // else it is not its turn
		c.makePlace()
	}
}

// stopWaiting notes that a connection does not wait for its client.
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

// makePlace closes a connection if a new one wants its place, now or when it has waited long enough. The server notes
// then that it is closed.
func (c *Connections) makePlace() {
	first := c.waiting.Front()
	if !c.wanted || first == nil {
		return
	}
	conn, _ := first.Value.(waitingConn)
	if early := leastWait - time.Since(conn.since); early > 0 {
		time.AfterFunc(early, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.makePlace()
		})
		return
	}
	c.wanted = false
	_ = conn.Close()
}

// boundedListener accepts connections when there is a place for them.
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
		return nil, err //nolint:wrapcheck // the server knows it
	}
	c := l.connections
	select {
	case c.open <- struct{}{}:
		return c.newConn(conn), nil
	default:
	}
	c.full.Store(true)
	defer c.full.Store(false)
	c.mu.Lock()
	c.wanted = true
	c.makePlace()
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

// newConn bounds what a connection may hold.
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
	return l.Listener.Close() //nolint:wrapcheck // the server knows it
}
