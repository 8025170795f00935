package httpkit_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"novelgate/internal/httpkit"
)

// bounded returns a server with a limit of four connections. It answers requests for /wait when released is closed, and
// those for /large with a megabyte; taken then gets the error.
func bounded(t *testing.T) (address string, released chan struct{}, taken chan error) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	released, taken = make(chan struct{}), make(chan error, 100)
	answer := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch r.URL.Path {
		case "/wait":
			<-released
		case "/large":
			_, err := w.Write(make([]byte, 1<<20))
			taken <- err
		}
	}
	server := &http.Server{ReadHeaderTimeout: time.Hour, Handler: http.HandlerFunc(answer)}
	ended := make(chan error)
	go func() { ended <- httpkit.NewConnections(4).Serve(server, listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return listener.Addr().String(), released, taken
}

// client is a connection.
type client struct {
	t *testing.T
	net.Conn
	answers *bufio.Reader
}

func dial(t *testing.T, address string) *client {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return &client{t, conn, bufio.NewReader(conn)}
}

func (c *client) send(path string) *client {
	c.t.Helper()
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		c.t.Fatal(err)
	}
	return c
}

// answered reports whether an answer arrives before the connection ends.
func (c *client) answered() bool {
	c.t.Helper()
	response, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			c.t.Error("neither an answer nor an end")
		}
		return false
	}
	return response.Body.Close() == nil
}

// wantAnswers opens new connections and expects an answer on each.
func wantAnswers(t *testing.T, address string, connections int) {
	t.Helper()
	for i := range connections {
		if !dial(t, address).send("/").answered() {
			t.Fatalf("new connection %d is not answered", i)
		}
	}
}

// TestConnectionsThatWaitMakePlace: however many connections are open, a new one is answered; the one that has waited
// longest for a request is closed first.
func TestConnectionsThatWaitMakePlace(t *testing.T) {
	t.Parallel()
	address, _, _ := bounded(t)
	silent := dial(t, address) // has never sent anything
	idle := dial(t, address).send("/")
	if !idle.answered() {
		t.Fatal("not answered")
	}
	slow := dial(t, address) // has sent part of a header
	if _, err := io.WriteString(slow, "GET / HTTP/1.1\r\n"); err != nil {
		t.Fatal(err)
	}
	wantAnswers(t, address, 8)
	for name, c := range map[string]*client{"silent": silent, "idle": idle, "slow": slow} {
		if c.answered() {
			t.Errorf("the %s connection is open", name)
		}
	}
}

// TestConnectionsThatDoNotReadMakePlace: an answer that the client does not read stays in its handler, which counts
// against the limit of readers, instead of the kernel. Such a connection is closed for a new one.
func TestConnectionsThatDoNotReadMakePlace(t *testing.T) {
	t.Parallel()
	address, _, taken := bounded(t)
	for range 4 {
		if _, err := io.ReadFull(dial(t, address).send("/large"), make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	wantAnswers(t, address, 4)
	for range 4 {
		if err := <-taken; err == nil {
			t.Error("a handler has written a megabyte that the client does not read")
		}
	}
}

// TestConnectionsWithStalledBodiesMakePlace: a connection whose body stalls, or arrives byte by byte, is closed for a
// new one.
func TestConnectionsWithStalledBodiesMakePlace(t *testing.T) {
	t.Parallel()
	address, _, _ := bounded(t)
	const head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
	for n := range 4 {
		stalled := dial(t, address)
		if _, err := io.WriteString(stalled, head+"{"); err != nil {
			t.Fatal(err)
		}
		if n%2 == 1 {
			go func() {
				for {
					if _, err := io.WriteString(stalled, "x"); err != nil {
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
			}()
		}
	}
	wantAnswers(t, address, 4)
}

// TestConnectionsWithRequestsStay: a connection with a running request is not closed. New connections wait.
func TestConnectionsWithRequestsStay(t *testing.T) {
	t.Parallel()
	address, released, _ := bounded(t)
	var all []*client
	for range 12 {
		all = append(all, dial(t, address).send("/wait"))
	}
	close(released)
	for i, c := range all {
		if !c.answered() {
			t.Errorf("request %d is not answered", i)
		}
	}
}

// TestConnectionsOfBusyClientsMakePlace: clients that repeat requests at once do not keep others from connecting.
func TestConnectionsOfBusyClientsMakePlace(t *testing.T) {
	t.Parallel()
	address, _, _ := bounded(t)
	var busy sync.WaitGroup
	for range 4 {
		busy.Add(1)
		go repeat(t.Context(), address, sync.OnceFunc(busy.Done))
	}
	busy.Wait()
	wantAnswers(t, address, 8)
}

// repeat sends requests, each as soon as the last one is answered, and reconnects when the server closes the
// connection, until ctx ends.
func repeat(ctx context.Context, address string, answered func()) {
	for ctx.Err() == nil {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			continue
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		for answers := bufio.NewReader(conn); ; answered() {
			if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				break
			}
			response, err := http.ReadResponse(answers, nil)
			if err != nil {
				break
			}
			_ = response.Body.Close()
		}
		stop()
		_ = conn.Close()
	}
}

// TestUnfinishedHeaders: a header with too many fields is refused before it ends; later bytes do not count.
func TestUnfinishedHeaders(t *testing.T) {
	t.Parallel()
	address, _, _ := bounded(t)
	const head, lines = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200\r\n", "\r\n"
	c := dial(t, address)
	for range 2 {
		for _, part := range []string{
			head[:7], head[7:16], head[16:], strings.Repeat("A:\n", 63) + "\r", "\n" + strings.Repeat(lines, 100),
		} {
			if _, err := io.WriteString(c, part); err != nil {
				t.Fatal(err)
			}
		}
		if status := c.status(); status != http.StatusOK {
			t.Fatalf("64 fields and a body: status %d", status)
		}
	}
	for name, fields := range map[string]string{
		"fields": strings.Repeat("A:\n", 65), "continued fields": "A:\n" + strings.Repeat(" \n", 64),
	} {
		c := dial(t, address)
		if _, err := io.WriteString(c, head+fields); err != nil {
			t.Fatal(err)
		}
		if status := c.status(); status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s without an end: status %d", name, status)
		}
	}
}

// status returns the status of the next answer.
func (c *client) status() int {
	c.t.Helper()
	response, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		c.t.Fatal(err)
	}
	return response.StatusCode
}
