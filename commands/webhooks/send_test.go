package webhooks_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"novelgate/commands/webhooks"
	"novelgate/internal/testdb"
)

// names is a DNS server on loopback.
type names struct {
	*net.Resolver
	mu        sync.Mutex
	addresses []netip.Addr // of each name
	asked     int          // queries for addresses
}

// newNames starts a DNS server that answers every query with addresses.
func newNames(t *testing.T, addresses ...string) *names {
	t.Helper()
	conn := testdb.Must((&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0"))(t)
	n := &names{}
	n.resolve(addresses...)
	n.Resolver = &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
		},
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		buffer := make([]byte, 512)
		for {
			size, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer := n.answer(buffer[:size]); answer != nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	})
	t.Cleanup(func() { _ = conn.Close(); serving.Wait() })
	return n
}

func (n *names) resolve(addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addresses = nil
	for _, text := range addresses {
		n.addresses = append(n.addresses, netip.MustParseAddr(text))
	}
}

func (n *names) answer(query []byte) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	var message dnsmessage.Message
	if message.Unpack(query) != nil {
		return nil
	}
	message.Response, message.RecursionAvailable, message.Additionals = true, true, nil
	for _, question := range message.Questions {
		header := dnsmessage.ResourceHeader{Name: question.Name, Type: question.Type, Class: question.Class}
		for _, address := range n.addresses {
			switch {
			case question.Type == dnsmessage.TypeA && address.Is4():
				n.asked++
				message.Answers = append(message.Answers, dnsmessage.Resource{
					Header: header, Body: &dnsmessage.AResource{A: address.As4()},
				})
			case question.Type == dnsmessage.TypeAAAA && address.Is6():
				n.asked++
				message.Answers = append(message.Answers, dnsmessage.Resource{
					Header: header, Body: &dnsmessage.AAAAResource{AAAA: address.As16()},
				})
			}
		}
	}
	packed, err := message.Pack()
	if err != nil {
		return nil
	}
	return packed
}

// secure starts an https endpoint, and returns its port and the roots for its certificate.
func secure(t *testing.T, handler http.Handler, config *tls.Config) (port string, roots *x509.CertPool) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.TLS = config
	server.Config.SetKeepAlivesEnabled(false) // every request needs a connection
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return port, roots
}

// TestHTTPS: changes are sent only to an endpoint with a valid certificate for its name.
func TestHTTPS(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	e := newEndpoint(t, nil)
	port, roots := secure(t, e, nil)
	old, oldRoots := secure(t, http.NotFoundHandler(), &tls.Config{MaxVersion: tls.VersionTLS11})
	resolver := newNames(t, "127.0.0.1").Resolver
	d.api.Sender = webhooks.NewSenderThrough(loopback, time.Now, resolver, roots, 0)
	made := d.hook(t, "https://example.com:"+port+"/hook", "") // the certificate of httptest is for example.com
	e.trust(made.Secret)
	want := d.happen(t, 5)
	d.worker(t)
	e.wantTaken(t, want)

	taken := e.attempts()
	for name, tc := range map[string]struct {
		url    string
		sender *webhooks.Sender
		want   string
	}{
		"system roots": {
			"https://example.com:" + port, webhooks.NewSenderThrough(loopback, time.Now, resolver, nil, 0),
			"the certificate is not valid",
		},
		"another name": {"https://example.org:" + port, d.api.Sender, "the certificate is not valid"},
		"as NewSender makes it": {
			"https://127.0.0.1:" + port, webhooks.NewSender(loopback, time.Now), "the certificate is not valid",
		},
		"an old version of TLS": {
			"https://example.com:" + old, webhooks.NewSenderThrough(loopback, time.Now, resolver, oldRoots, 0),
			"the connection failed",
		},
		"no TLS": {"https://" + e.Listener.Addr().String(), d.api.Sender, "the answer is not TLS"},
	} {
		d.execute(t, `UPDATE webhooks SET url = $1`, tc.url)
		d.api.Sender = tc.sender
		var o webhooks.Outcome
		d.send(t, acme, http.MethodPost, "/"+made.ID.String()+"/test", "", &o)
		if o.Delivered || o.Error == nil || *o.Error != tc.want {
			t.Errorf("%s: %+v %s", name, o, *o.Error)
		}
	}
	if n := e.attempts(); n != taken {
		t.Errorf("%d requests reached the endpoint", n-taken)
	}
}

// TestRebinding: a name resolves to an allowed address first and to others later, once together with an allowed one. No
// request reaches the others. Changes are delivered when the name resolves to the allowed address again.
func TestRebinding(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	e := newEndpoint(t, nil)
	port, roots := secure(t, e, nil)
	var within atomic.Int32
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.2:"+port)
	if err != nil {
		t.Skip("another address of loopback cannot be had")
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			within.Add(1)
			_ = conn.Close()
		}
	}()
	dns := newNames(t, "127.0.0.1")
	d.api.Sender = webhooks.NewSenderThrough([]netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, time.Now,
		dns.Resolver, roots, 0)
	made := d.hook(t, "https://example.com:"+port, "")
	e.trust(made.Secret)
	want := d.happen(t, 2)
	d.worker(t)
	e.wantTaken(t, want)

	for _, addresses := range [][]string{
		{"127.0.0.2"}, {"::ffff:127.0.0.2"}, {"127.0.0.2", "::1"}, {"10.0.0.1", "169.254.169.254"},
	} {
		dns.resolve(addresses...)
		failures := d.show(t, made.ID).Failures
		want = append(want, d.happen(t, 1)...)
		d.pass(time.Hour)
		testdb.Eventually(t, "it fails at "+strings.Join(addresses, ", "), func() bool {
			shown := d.show(t, made.ID)
			return shown.Failures > failures && *shown.Attempts[0].Error == "the address must be public, and used by https"
		})
	}
	dns.resolve("127.0.0.2", "127.0.0.1") // the dialer tries each, and may have to pass the first
	d.pass(time.Hour)
	e.wantTaken(t, want)
	if n := within.Load(); n > 0 {
		t.Errorf("%d connections to the address within", n)
	}
	dns.mu.Lock()
	defer dns.mu.Unlock()
	if dns.asked == 0 {
		t.Error("another resolver was used")
	}
}

// TestEndpointsThatDoNotEnd: an endpoint that never completes the handshake, its header or its answer holds a request
// for as long as an attempt may take, and no connection afterwards.
func TestEndpointsThatDoNotEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		scheme, answer string
		endless        bool   // the answer is sent again and again
		error          string // "": delivered
	}{
		"handshake":      {"https", "", false, "no answer within 1 seconds"},
		"header":         {"http", "HTTP/1.1 204 No Content\r\nX-Long: ", false, "no answer within 1 seconds"},
		"endless header": {"http", "HTTP/1.1 100 Continue\r\n\r\n", true, "the connection failed"},
		"body":           {"http", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbegin", false, ""},
		"endless body":   {"http", "HTTP/1.1 200 OK\r\n\r\n", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newFixture(t)
			listener := testdb.Must((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
			t.Cleanup(func() { _ = listener.Close() })
			ended := make(chan error, 1)
			go func() {
				conn, err := listener.Accept()
				if err != nil {
					ended <- err
					return
				}
				defer conn.Close() //nolint:errcheck // it has ended
				_ = conn.SetDeadline(time.Now().Add(time.Minute))
				if c.scheme == "http" { // an answer before the request would be an error of its own
					_, err = http.ReadRequest(bufio.NewReader(conn))
				}
				for more := true; more && err == nil; more = c.endless {
					_, err = io.WriteString(conn, c.answer)
				}
				if err == nil {
					_, err = io.Copy(io.Discard, conn)
				}
				ended <- err
			}()
			d.api.Sender = webhooks.NewSenderThrough(loopback, time.Now, nil, nil, time.Second)
			made := d.hook(t, c.scheme+"://"+listener.Addr().String(), "")
			var o webhooks.Outcome
			d.send(t, acme, http.MethodPost, "/"+made.ID.String()+"/test", "", &o)
			if o.Delivered != (c.error == "") || !o.Delivered && *o.Error != c.error {
				t.Errorf("%+v, want %q", o, c.error)
			}
			if err := <-ended; errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the connection: %v", err)
			}
		})
	}
}

// TestAClosedConnection: an endpoint closes its idle connection when a request arrives on it. The request is repeated
// at once on another one.
func TestAClosedConnection(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	var requests atomic.Int32
	e := newEndpoint(t, func(w http.ResponseWriter, _ int) {
		if requests.Add(1) == 2 {
			panic(http.ErrAbortHandler) // closes the connection without an answer
		}
		w.WriteHeader(http.StatusNoContent)
	})
	w := d.hook(t, e.URL, "")
	want := d.happen(t, 2)
	d.worker(t)
	e.wantTaken(t, want)
	testdb.Eventually(t, "both outcomes are saved", func() bool { return len(d.show(t, w.ID).Attempts) == 2 })
	if shown := d.show(t, w.ID); !shown.Attempts[0].Delivered || !shown.Attempts[1].Delivered || requests.Load() != 3 {
		t.Errorf("%d requests, %+v", requests.Load(), shown.Attempts)
	}
}
