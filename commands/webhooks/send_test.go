package webhooks_test

import (
	"bufio"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"code.dny.dev/ssrf"

	"novelgate/commands/webhooks"
	"novelgate/internal/testdb"
)

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

// expiredCertificate returns a certificate for 127.0.0.1 that expired an hour ago.
func expiredCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour),
	}
	made := testdb.Must(x509.CreateCertificate(nil, template, template, public, private))(t)
	return tls.Certificate{Certificate: [][]byte{made}, PrivateKey: private}
}

// TestHTTPS: changes are sent only to an endpoint with a valid certificate for its name.
func TestHTTPS(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	e := newEndpoint(t, nil)
	port, roots := secure(t, e, nil)
	old, oldRoots := secure(t, http.NotFoundHandler(), &tls.Config{MaxVersion: tls.VersionTLS11})
	expired, expiredRoots := secure(t, http.NotFoundHandler(),
		&tls.Config{Certificates: []tls.Certificate{expiredCertificate(t)}})
	d.api.Sender = webhooks.NewSenderThrough(loopback, time.Now, roots, 15*time.Second)
	made := d.hook(t, "https://127.0.0.1:"+port+"/hook", "")
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
			"https://127.0.0.1:" + port, webhooks.NewSender(loopback, time.Now),
			"the certificate is of an unknown authority, or its chain is not complete",
		},
		"another name": {
			"https://localhost:" + port, d.api.Sender, "the certificate is for another host name",
		},
		"expired": {
			"https://127.0.0.1:" + expired, webhooks.NewSenderThrough(loopback, time.Now, expiredRoots, 15*time.Second),
			"the certificate has expired or is not valid yet",
		},
		"an old version of TLS": {
			"https://127.0.0.1:" + old, webhooks.NewSenderThrough(loopback, time.Now, oldRoots, 15*time.Second),
			"the TLS handshake failed; it needs TLS 1.2 or newer",
		},
		"no TLS": {
			"https://" + e.Listener.Addr().String(), d.api.Sender,
			"the answer is not TLS, but plain HTTP or another protocol",
		},
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
			d.api.Sender = webhooks.NewSenderThrough(loopback, time.Now, nil, time.Second)
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

// TestALargeMessageOnAClosedConnection: net/http itself does not repeat a request that was sent in part.
func TestALargeMessageOnAClosedConnection(t *testing.T) {
	t.Parallel()
	listener := testdb.Must((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for first := true; ; first = false {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
			}
			if first {
				_, _ = conn.Read(make([]byte, 1))    // the next request has begun
				_ = conn.(*net.TCPConn).SetLinger(0) // what is not read is reset
			}
			_ = conn.Close()
		}
	}()
	sender := webhooks.NewSender(loopback, time.Now)
	for n := range 2 {
		if o := sender.Send(t.Context(), "http://"+listener.Addr().String(), "m", make([]byte, 16<<20)); !o.Delivered {
			t.Errorf("message %d: %s", n, *o.Error)
		}
	}
}

// TestInternalNames: a partner is not told which names the host platform's network has: a name with a private address
// and one without an address fail alike.
func TestInternalNames(t *testing.T) {
	t.Parallel()
	private := fmt.Errorf("dial: %w", ssrf.ErrProhibitedIP)
	want := webhooks.Failure(0, private, time.Second)
	for _, unresolved := range []*net.DNSError{{IsNotFound: true}, {IsTimeout: true}, {IsTemporary: true}} {
		if got := webhooks.Failure(0, &net.OpError{Op: "dial", Err: unresolved}, time.Second); got != want {
			t.Errorf("%+v: %q, want %q", unresolved, got, want)
		}
	}
}
