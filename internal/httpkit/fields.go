package httpkit

import (
	"bytes"
	"net"
	"net/http"
	"time"
)

// maxFields is how many header fields a request may have. Browsers and proxies send about 30.
const maxFields = 64

// LimitFields refuses requests with more header fields than that with 431, before they wait for anything. net/http
// makes a map of the fields, which for short ones takes many times their bytes: 19 KB took a quarter of a megabyte.
func LimitFields(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fields := 0
		for _, values := range r.Header {
			if fields += len(values); fields > maxFields {
				r.Header = nil // net/http may still wait for the body
				leaveBody(w, r)
				w.Header().Set("Connection", "close")
				// As net/http refuses a header with too many bytes.
				const status = http.StatusRequestHeaderFieldsTooLarge
				http.Error(w, "431 "+http.StatusText(status), status)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// maxLines is how many lines a header may have: those of the fields, the request line, and Host, which is not in the
// map.
const maxLines = maxFields + 2

// headerConn lets net/http read no more header fields than that, because it has a map of them also while the rest of a
// header is to arrive.
type headerConn struct {
	net.Conn
	connections *Connections

	inHeader bool
	lines    int  // of the header, complete
	text     bool // the line that comes after them is not empty

	body time.Time // when the first read of the request's body began that had to wait for bytes; zero: none
}

// note is told the state of the connection. No Read is under way when that is one of these.
func (c *headerConn) note(state http.ConnState) {
	switch state { //nolint:exhaustive // the others end the connection
	case http.StateNew, http.StateIdle:
		c.inHeader, c.lines, c.text = true, 0, false
	case http.StateActive:
		c.inHeader, c.body = false, time.Time{}
	}
}

// Read implements net.Conn. After too many lines it reads one that does not end, which net/http refuses with 431.
func (c *headerConn) Read(p []byte) (int, error) {
	if c.inHeader && c.lines > maxLines {
		clear(p)
		return len(p), nil
	}
	// While it answers a request, net/http reads a single byte, to notice that the client leaves. Anything longer is body.
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
	return n, err //nolint:wrapcheck // the server knows it
}

// Write implements net.Conn. Meanwhile the connection waits for its client.
func (c *headerConn) Write(p []byte) (int, error) {
	c.connections.startWaiting(c, time.Now()) //nolint:forbidigo // the clock of the connection
	defer c.connections.stopWaiting(c)
	return c.Conn.Write(p) //nolint:wrapcheck // the server knows it
}

// count counts lines to the end of the header. It returns how many bytes net/http may have.
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
		case c.lines > 0: // empty ones before the first do not count
			c.inHeader = false
			return len(read)
		}
		if c.lines > maxLines {
			return from
		}
	}
}

// CloseWrite lets net/http close a connection so that the client gets the answer.
func (c *headerConn) CloseWrite() error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		return tcp.CloseWrite() //nolint:wrapcheck // the server knows it
	}
	return nil
}
