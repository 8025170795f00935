package httpkit

import (
	"bytes"
	"net"
	"net/http"
	"time"
)

// maxFields limits the header fields of a request. Browsers and proxies send about 30.
const maxFields = 64

// LimitFields refuses requests with more than maxFields header fields with 431. It belongs before all handlers that
// wait, because short fields take many times their bytes in the map of net/http: 19 KB became a quarter of a megabyte.
func LimitFields(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fields := 0
		for _, values := range r.Header {
			if fields += len(values); fields > maxFields {
				r.Header = nil // frees the map, because net/http may still wait for the body
				abandonBody(w, r)
				w.Header().Set("Connection", "close")
				// net/http sends the same text for a header with too many bytes.
				const status = http.StatusRequestHeaderFieldsTooLarge
				http.Error(w, "431 "+http.StatusText(status), status)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// maxLines limits the lines of a header: the request line, maxFields, and Host, which is not in http.Request.Header.
const maxLines = maxFields + 2

// headerConn refuses a header of more than maxLines lines while it arrives, because net/http fills its map before the
// whole header has arrived. It tells Connections when the connection waits for its client.
type headerConn struct {
	net.Conn
	connections *Connections

	inHeader bool
	lines    int  // complete lines of the header
	partial  bool // the next line has text, but no end yet

	bodySince time.Time // start of the first read of the body; zero: none
}

// setState follows the state of the connection. net/http calls it while no Read runs.
func (c *headerConn) setState(state http.ConnState) {
	switch state { // all other states end the connection
	case http.StateNew, http.StateIdle:
		c.inHeader, c.lines, c.partial = true, 0, false
	case http.StateActive:
		c.inHeader, c.bodySince = false, time.Time{}
	}
}

// Read implements net.Conn. After too many lines it returns an endless line, which net/http refuses with 431.
func (c *headerConn) Read(p []byte) (int, error) {
	if c.inHeader && c.lines > maxLines {
		clear(p)
		return len(p), nil
	}
	// While a handler runs, net/http reads a single byte, to detect a disconnect. A longer read is for the body.
	if !c.inHeader && len(p) > 1 {
		if c.bodySince.IsZero() {
			c.bodySince = time.Now() //nolint:forbidigo // the clock of the connection
		}
		c.connections.startWaiting(c, c.bodySince)
		defer c.connections.stopWaiting(c)
	}
	n, err := c.Conn.Read(p)
	if c.inHeader {
		n = c.count(p[:n])
	}
	return n, err // net/http expects the error unwrapped
}

// Write implements net.Conn. While it writes, the connection waits for its client.
func (c *headerConn) Write(p []byte) (int, error) {
	c.connections.startWaiting(c, time.Now()) //nolint:forbidigo // the clock of the connection
	defer c.connections.stopWaiting(c)
	return c.Conn.Write(p) // net/http expects the error unwrapped
}

// count counts lines up to the end of the header. It returns how many of the bytes Read may return.
func (c *headerConn) count(read []byte) int {
	for from := 0; ; {
		line, _, complete := bytes.Cut(read[from:], []byte("\n"))
		c.partial = c.partial || len(bytes.Trim(line, "\r")) > 0
		if !complete {
			return len(read)
		}
		from += len(line) + 1
		switch {
		case c.partial:
			c.lines, c.partial = c.lines+1, false
		case c.lines > 0: // empty lines before the request line do not count
			c.inHeader = false
			return len(read)
		}
		if c.lines > maxLines {
			return from
		}
	}
}

// CloseWrite lets net/http close a connection after the client has received the answer.
func (c *headerConn) CloseWrite() error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		return tcp.CloseWrite() // net/http expects the error unwrapped
	}
	return nil
}
