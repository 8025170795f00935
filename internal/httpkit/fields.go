package httpkit

import (
	"bytes"
	"net"
	"net/http"
	"time"
)

// maxFields limits the header fields of a request. Browsers and proxies send about 30.
const maxFields = 64

// LimitFields refuses requests with more than maxFields header fields with 431, before they wait for anything. The map
// of net/http takes many times the bytes of short fields: 19 KB became a quarter of a megabyte.
func LimitFields(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fields := 0
		for _, values := range r.Header {
			if fields += len(values); fields > maxFields {
				r.Header = nil // net/http may still wait for the body
				leaveBody(w, r)
				w.Header().Set("Connection", "close")
				// net/http sends the same for a header with too many bytes.
				const status = http.StatusRequestHeaderFieldsTooLarge
				http.Error(w, "431 "+http.StatusText(status), status)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// maxLines limits the lines of a header: its fields, the request line, and Host, which is not in the map.
const maxLines = maxFields + 2

// headerConn lets net/http read at most maxLines lines of a header, because net/http already fills its map while the
// rest of the header arrives.
type headerConn struct {
	net.Conn
	connections *Connections

	inHeader bool
	lines    int  // complete lines of the header
	text     bool // the incomplete next line is not empty

	body time.Time // when the first read of the body that had to wait began; zero: none
}

// note gets the state of the connection. No Read is running in these states.
func (c *headerConn) note(state http.ConnState) {
	switch state { //nolint:exhaustive // all other states end the connection
	case http.StateNew, http.StateIdle:
		c.inHeader, c.lines, c.text = true, 0, false
	case http.StateActive:
		c.inHeader, c.body = false, time.Time{}
	}
}

// Read implements net.Conn. After too many lines it reads an endless line, which net/http refuses with 431.
func (c *headerConn) Read(p []byte) (int, error) {
	if c.inHeader && c.lines > maxLines {
		clear(p)
		return len(p), nil
	}
	// While a handler runs, net/http reads a single byte, to detect a disconnect. A longer read is for the body.
	if !c.inHeader && len(p) > 1 {
		if c.body.IsZero() {
			c.body = time.Now() //nolint:forbidigo // the clock of the connection
		}
		c.connections.startWaiting(c, c.body)
		defer c.connections.stopWaiting(c)
	}
	n, err := c.Conn.Read(p)
	if c.inHeader {
		n = c.count(p[:n])
	}
	return n, err //nolint:wrapcheck // net/http expects the error unwrapped
}

// Write implements net.Conn. While it writes, the connection waits for its client.
func (c *headerConn) Write(p []byte) (int, error) {
	c.connections.startWaiting(c, time.Now()) //nolint:forbidigo // the clock of the connection
	defer c.connections.stopWaiting(c)
	return c.Conn.Write(p) //nolint:wrapcheck // net/http expects the error unwrapped
}

// count counts lines up to the end of the header. It returns the number of bytes that net/http may get.
func (c *headerConn) count(read []byte) int {
	for from := 0; ; {
		length := bytes.IndexByte(read[from:], '\n')
		line := read[from:]
		if length >= 0 {
			line = line[:length]
		}
		c.text = c.text || len(bytes.Trim(line, "\r")) > 0
		if length < 0 {
			return len(read)
		}
		from += length + 1
		switch {
		case c.text:
			c.lines, c.text = c.lines+1, false
		case c.lines > 0: // empty lines before the request line do not count
			c.inHeader = false
			return len(read)
		}
		if c.lines > maxLines {
			return from
		}
	}
}

// CloseWrite lets net/http close a connection after the client has the answer.
func (c *headerConn) CloseWrite() error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		return tcp.CloseWrite() //nolint:wrapcheck // net/http expects the error unwrapped
	}
	return nil
}
