package covers

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"code.dny.dev/ssrf"
)

func picture(t *testing.T) []byte {
	t.Helper()
	var encoded bytes.Buffer
	if err := png.Encode(&encoded, image.NewGray(image.Rect(0, 0, 2, 3))); err != nil {
		t.Fatal(err)
	}
	return encoded.Bytes()
}

// host is a partner's host on a loopback address, and a Proxy that may connect to it.
func host(t *testing.T, handler http.Handler) (*httptest.Server, *Proxy) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	p := newProxy(func(string, string, syscall.RawConn) error { return nil }, time.Now)
	p.client.Timeout = time.Minute // for a busy machine
	transport, ok := p.client.Transport.(*http.Transport)
	if !ok {
		t.Fatal("the client has another transport")
	}
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	t.Cleanup(transport.CloseIdleConnections)
	return server, p
}

func TestCover(t *testing.T) {
	t.Parallel()
	png := picture(t)
	var asked atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/cover.png", func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "text/html") // the content decides
		_, _ = w.Write(png)
	})
	mux.Handle("/moved", http.RedirectHandler("/cover.png", http.StatusFound))
	mux.Handle("/loop", http.RedirectHandler("/loop", http.StatusFound))
	mux.Handle("/plain", http.RedirectHandler("http://127.0.0.1/cover.png", http.StatusFound))
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		_, _ = io.WriteString(w, "<!doctype html><script>alert(1)</script>")
	})
	mux.HandleFunc("/svg", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/svg+xml")
		_, _ = io.WriteString(w, `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`)
	})
	mux.HandleFunc("/huge", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(png)
		_, _ = w.Write(make([]byte, MaxSize))
	})
	mux.HandleFunc("/long-header", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", 2*maxHeader))
		_, _ = w.Write(png)
	})
	server, p := host(t, mux)
	for path, want := range map[string]error{
		"/cover.png": nil, "/moved": nil, "/loop": ErrNoPicture, "/plain": ErrNoPicture, "/page": ErrNoPicture,
		"/svg": ErrNoPicture, "/huge": ErrNoPicture, "/long-header": ErrNoPicture, "/missing": ErrNoPicture,
	} {
		for range 2 {
			got, err := p.Cover(t.Context(), server.URL+path)
			if !errors.Is(err, want) || want == nil && (got.Type != "image/png" || !bytes.Equal(got.Content, png)) {
				t.Errorf("%s: %s, %d bytes, %v", path, got.Type, len(got.Content), err)
			}
		}
	}
	if n := asked.Load(); n != 2 { // directly and by the redirect
		t.Errorf("the cover was fetched %d times", n)
	}
	plain := strings.Replace(server.URL, "https", "http", 1) + "/cover.png"
	if _, err := p.Cover(t.Context(), plain); !errors.Is(err, ErrNoPicture) {
		t.Errorf("without TLS: %v", err)
	}
}

// TestPrivateAddresses: neither an address nor a name leads into the platform's network.
func TestPrivateAddresses(t *testing.T) {
	t.Parallel()
	server, _ := host(t, http.NotFoundHandler())
	p := New(time.Now)
	port := server.URL[strings.LastIndex(server.URL, ":"):]
	for _, address := range []string{
		server.URL, "https://localhost" + port, "https://[::1]" + port, "https://[::ffff:127.0.0.1]" + port,
		"https://10.0.0.1/", "https://192.168.0.1/", "https://169.254.169.254/latest/meta-data/", "https://0.0.0.0" + port,
	} {
		_, err := p.Cover(t.Context(), address)
		if !errors.Is(err, ErrNoPicture) || !errors.Is(err, ssrf.ErrProhibitedIP) && !errors.Is(err, ssrf.ErrProhibitedPort) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestRedirects into the platform's network reach nothing, and certificates are verified.
func TestRedirects(t *testing.T) {
	t.Parallel()
	png := picture(t)
	var reached atomic.Int64
	private := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		_, _ = w.Write(png)
	})
	inner, plain := httptest.NewTLSServer(private), httptest.NewServer(private)
	t.Cleanup(inner.Close)
	t.Cleanup(plain.Close)
	server, p := host(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusFound)
	}))
	transport, ok := p.client.Transport.(*http.Transport)
	if !ok || transport.Proxy != nil {
		t.Fatal("the client has another transport, or the proxy of the environment")
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate()) // of both TLS servers
	transport.TLSClientConfig = &tls.Config{RootCAs: trusted, ServerName: "example.com"}
	public, guard := server.Listener.Addr().String(), ssrf.New(ssrf.WithAnyPort())
	transport.DialContext = (&net.Dialer{Control: func(network, address string, c syscall.RawConn) error {
		if address == public { // counts as one
			return nil
		}
		return guard.Safe(network, address, c)
	}}).DialContext
	to := func(target string) string { return server.URL + "/?to=" + url.QueryEscape(target) }
	port := inner.URL[strings.LastIndex(inner.URL, ":"):]
	for target, want := range map[string]error{
		inner.URL: ssrf.ErrProhibitedIP, "https://localhost" + port: ssrf.ErrProhibitedIP,
		"https://[::ffff:127.0.0.1]" + port: ssrf.ErrProhibitedIP, "https://0.0.0.0" + port: ssrf.ErrProhibitedIP,
		"//user@" + inner.Listener.Addr().String(): ssrf.ErrProhibitedIP, "https://10.0.0.1/": ssrf.ErrProhibitedIP,
		"https://169.254.169.254/latest/meta-data/": ssrf.ErrProhibitedIP,
		to(inner.URL): ssrf.ErrProhibitedIP, // in two steps
		plain.URL:     errNotHTTPS, "file:///etc/passwd": errNotHTTPS,
	} {
		if _, err := p.Cover(t.Context(), to(target)); !errors.Is(err, ErrNoPicture) || !errors.Is(err, want) {
			t.Errorf("a redirect to %s: %v", target, err)
		}
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("%d requests reached the private hosts", n)
	}
	transport.DialContext = nil // all addresses count as public
	if _, err := p.Cover(t.Context(), to(inner.URL)+"&again"); err != nil {
		t.Errorf("a redirect to a public host: %v", err)
	}
	transport.CloseIdleConnections()
	transport.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool()}
	var unknown x509.UnknownAuthorityError
	if _, err := p.Cover(t.Context(), to("none")); !errors.As(err, &unknown) {
		t.Errorf("a certificate of an unknown authority: %v", err)
	}
}

// TestCacheExpires: a cover that works again is shown soon, and one that has changed or is gone within a day.
func TestCacheExpires(t *testing.T) {
	t.Parallel()
	var there atomic.Bool
	png := picture(t)
	server, p := host(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !there.Load() {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(png)
	}))
	var clock atomic.Int64
	begun := time.Now()
	p.now = func() time.Time { return begun.Add(time.Duration(clock.Load())) }
	for _, step := range []struct {
		after time.Duration
		there bool
		want  error
	}{
		{0, false, ErrNoPicture},
		{failureTTL - 1, true, ErrNoPicture},
		{2, true, nil},
		{pictureTTL, false, nil},
		{1, false, ErrNoPicture},
	} {
		clock.Add(int64(step.after))
		there.Store(step.there)
		if _, err := p.Cover(t.Context(), server.URL); !errors.Is(err, step.want) {
			t.Errorf("%v later: %v, want %v", step.after, err, step.want)
		}
	}
}

// TestSlowHosts delay only their own fetches, and each reader only for the time of a request.
func TestSlowHosts(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}, maxFetches), make(chan struct{})
	server, p := host(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	}))
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	for n := range maxFetches {
		go func() {
			_, err := p.Cover(ctx, fmt.Sprint(server.URL, "/", n))
			ended <- err
		}()
	}
	for range maxFetches {
		<-arrived
	}
	if _, err := p.Cover(t.Context(), server.URL+"/other"); !errors.Is(err, ErrBusy) {
		t.Errorf("beyond the limit: %v", err)
	}
	cancel()
	for range maxFetches {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a reader who left: %v", err)
		}
	}
}

// TestHostWithoutTLS: a fetch leaves no connection to a host that never answers.
func TestHostWithoutTLS(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	ended := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
			_, err = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}
		ended <- err
	}()
	p := newProxy(func(string, string, syscall.RawConn) error { return nil }, time.Now)
	if _, err := p.Cover(t.Context(), "https://"+listener.Addr().String()); !errors.Is(err, ErrNoPicture) {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the connection: %v", err)
	}
}

// TestCacheIsBounded by the size of the pictures.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	p := New(time.Now)
	for n := range 2 * cacheBytes / MaxSize {
		p.store(fmt.Sprint(n), entry{Picture: Picture{Content: make([]byte, MaxSize)}})
	}
	total := 0
	for _, e := range p.cache.Values() {
		total += len(e.Content)
	}
	if total != p.bytes || total > cacheBytes || total < cacheBytes-MaxSize {
		t.Errorf("%d bytes are kept, counted as %d", total, p.bytes)
	}
}
