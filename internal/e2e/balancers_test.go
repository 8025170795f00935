package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"novelgate/client"
	"novelgate/internal/testdb"
)

// balancer is a load balancer with its file in deploy.
type balancer struct {
	program, file string
	// of makes the file fit the test: texts of the file, each followed by what the test has in its place. The files of
	// dir are TLS.crt, TLS.key, and TLS.pem with both.
	of func(dir string, port int) []string
	// args start it, in the foreground.
	args func(t *testing.T, dir, file string) []string
}

var balancers = []balancer{
	{
		"haproxy", "haproxy/haproxy.cfg", func(dir string, port int) []string {
			replaced := []string{
				"bind :443", fmt.Sprint("bind 127.0.0.1:", port), "/etc/haproxy/novelgate.pem", filepath.Join(dir, "TLS.pem"),
			}
			if os.Getuid() != 0 { // only root can change into these
				replaced = append(replaced, "  user haproxy\n", "", "  group haproxy\n", "", "  chroot /var/lib/haproxy\n", "")
			}
			return replaced
		},
		func(_ *testing.T, _, file string) []string { return []string{"-db", "-f", file} },
	},
	{
		"nginx", "nginx/novelgate.conf", func(dir string, port int) []string {
			return []string{
				"listen 443", fmt.Sprint("listen 127.0.0.1:", port), "/etc/nginx/novelgate.crt", filepath.Join(dir, "TLS.crt"),
				"/etc/nginx/novelgate.key", filepath.Join(dir, "TLS.key"), "/var/log/nginx", dir,
			}
		},
		func(t *testing.T, dir, file string) []string {
			t.Helper()
			main := "daemon off; master_process off; pid pid; error_log stderr; events {} http { include " + file + ";"
			for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
				main += fmt.Sprintf("%[1]s_temp_path %[1]s;", kind)
			}
			testdb.NoError(t, os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(main+"}"), 0o600))
			return []string{"-p", dir, "-c", "nginx.conf", "-e", "stderr"}
		},
	},
	{
		"caddy", "caddy/Caddyfile", func(dir string, port int) []string {
			return []string{
				"\tlog {\n", fmt.Sprintf("\tadmin off\n\tauto_https disable_redirects\n\thttps_port %d\n\tlog {\n", port),
				"\nnovels.example.org {\n",
				fmt.Sprintf("\nnovels.example.org {\n\tbind 127.0.0.1\n\ttls %[1]s/TLS.crt %[1]s/TLS.key\n", dir),
			}
		},
		func(_ *testing.T, _, file string) []string {
			return []string{"run", "--adapter", "caddyfile", "--config", file}
		},
	},
}

// balanced is a running load balancer in front of two replicas.
type balanced struct {
	balancer

	versions    [2]*Service // the service behind it, over HTTP/1.1 and HTTP/2
	databaseURL string
	replicas    [2]*Service
	addresses   [2]string
	address     string // of the load balancer
	trusted     *x509.CertPool
}

const balancedHost = "novels.example.org"

// TestBalancers runs each load balancer with its file as it is, except for addresses and the certificate. All that the
// service promises holds behind it, and a client that repeats does not notice that a replica is killed or restarted.
func TestBalancers(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	var all []*balanced
	var streams sync.WaitGroup // wait for 15 s while the checks run
	t.Cleanup(streams.Wait)
	for _, b := range balancers {
		if program := b.find(); program == "" {
			t.Run(b.program, func(t *testing.T) { t.Skipf("it is not installed, so deploy/%s is not tested", b.file) })
		} else {
			r := startBalancer(t, b, program)
			all = append(all, r)
			streams.Go(func() { wantSlowClientRefused(t, r) })
			for _, s := range r.versions {
				follow := startLiveStream(t, s)
				streams.Go(follow)
			}
		}
	}
	for _, r := range all {
		for _, check := range []struct {
			name string
			want func(*testing.T, *Service)
		}{
			{"a comment", wantComment},
			{"paths", wantPathsUntouched},
			{"sizes", wantSizes},
			{"bulk", wantBulk},
			{"refusals", wantRefusals},
			{"pages", wantPages},
		} {
			for i, s := range r.versions {
				t.Run(fmt.Sprintf("%s: %s over HTTP/%d", r.program, check.name, i+1), func(t *testing.T) { check.want(t, s) })
			}
		}
	}
	streams.Wait()
	t.Run("replicas", func(t *testing.T) {
		for _, r := range all {
			t.Run(r.program, func(t *testing.T) {
				t.Parallel()
				r.wantNothingLost(t)
			})
		}
	})
}

// find returns the path of the program; "" if it is not installed.
func (b balancer) find() string {
	for _, name := range []string{b.program, "/usr/sbin/" + b.program} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// startBalancer starts two replicas, and the load balancer in front of them.
func startBalancer(t *testing.T, b balancer, program string) *balanced {
	t.Helper()
	dir, port := t.TempDir(), testdb.ReservePort(t)
	r := &balanced{
		balancer: b, databaseURL: testdb.New(t), address: fmt.Sprint("127.0.0.1:", port),
		trusted: writeCertificate(t, dir),
	}
	r.versions = [2]*Service{r.service(t, 1), r.service(t, 2)}
	replaced := b.of(dir, port)
	for i := range r.replicas {
		r.addresses[i] = fmt.Sprint("127.0.0.1:", testdb.ReservePort(t))
		r.startReplica(t, i)
		replaced = append(replaced, fmt.Sprintf("10.0.0.1%d:8080", i+1), r.addresses[i])
	}
	text := string(testdb.Must(os.ReadFile(filepath.Join("../../deploy", b.file)))(t))
	for i := 0; i < len(replaced); i += 2 {
		if !strings.Contains(text, replaced[i]) {
			t.Fatalf("deploy/%s has no %q", b.file, replaced[i])
		}
	}
	file := filepath.Join(dir, filepath.Base(b.file))
	testdb.NoError(t, os.WriteFile(file, []byte(strings.NewReplacer(replaced...).Replace(text)), 0o600))
	running := launchProgram(t, program, b.args(t, dir, file)...)
	testdb.Eventually(t, b.program+" answers", func() bool {
		select {
		case <-running.exited:
			t.Fatalf("%s has ended\n%s", b.program, running.stderr)
		default:
		}
		a := r.versions[0].send(t, Request{Path: "/healthz"})
		return a.err == nil && a.Status == http.StatusOK
	})
	return r
}

// startReplica starts a replica, again at its address.
func (r *balanced) startReplica(t *testing.T, i int) {
	t.Helper()
	r.replicas[i] = servePatiently(t, r.databaseURL, append(unsafe[:1:1], "--listen", r.addresses[i])...)
}

// service returns the service behind the load balancer, with an HTTP client of one version of HTTP.
func (r *balanced) service(t *testing.T, version int) *Service {
	t.Helper()
	var protocols http.Protocols
	protocols.SetHTTP1(version == 1)
	protocols.SetHTTP2(version == 2)
	s := Attach("https://" + balancedHost)
	s.DatabaseURL = r.databaseURL
	s.http.Transport = &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, r.address)
		},
		TLSClientConfig: &tls.Config{RootCAs: r.trusted}, Protocols: &protocols, MaxIdleConnsPerHost: 64,
		ExpectContinueTimeout: patience,
	}
	t.Cleanup(s.http.CloseIdleConnections)
	return s
}

// client returns a partner's client of the service.
func (r *balanced) client(t *testing.T, s *Service) *client.Client {
	t.Helper()
	return testdb.Must(client.New(s.URL, s.NewPartner(t).APIKey, client.WithHTTPClient(s.http)))(t)
}

// writeCertificate writes TLS.crt, TLS.key and TLS.pem.
func writeCertificate(t *testing.T, dir string) (trusted *x509.CertPool) {
	t.Helper()
	key := testdb.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{balancedHost}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der := testdb.Must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private := pem.EncodeToMemory(&pem.Block{
		Type: "PRIVATE KEY", Bytes: testdb.Must(x509.MarshalPKCS8PrivateKey(key))(t),
	})
	for name, text := range map[string][]byte{
		"TLS.crt": certificate, "TLS.key": private, "TLS.pem": slices.Concat(certificate, private),
	} {
		testdb.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	trusted = x509.NewCertPool()
	trusted.AppendCertsFromPEM(certificate)
	return trusted
}

// wantComment sends a comment twice, over the version of HTTP that was asked for.
func wantComment(t *testing.T, s *Service) {
	t.Helper()
	p, key, fields := s.NewPartner(t), Key(), Comment(Unique("Balanced"))
	first := p.Import(t, key, fields).WantPost(t, http.StatusCreated)
	again := p.Import(t, key, fields)
	again.WantReplayed(t, true, false)
	second := again.WantPost(t, http.StatusOK)
	if second.PostID != first.PostID || !strings.HasPrefix(second.URL, publicURL) {
		t.Errorf("%+v, and again %+v", first, second)
	}
	request := testdb.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/healthz", nil))(t)
	response, err := s.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	testdb.NoError(t, response.Body.Close())
	if transport, _ := s.http.Transport.(*http.Transport); (response.ProtoMajor == 2) != transport.Protocols.HTTP2() {
		t.Errorf("answered over %s", response.Proto)
	}
}

// wantPathsUntouched: identifiers with slashes and dots reach the service as they were sent, and it finds nothing at
// paths that only a decoding would make those of a route.
func wantPathsUntouched(t *testing.T, s *Service) {
	t.Helper()
	p, title := s.NewPartner(t), Unique("Fate/Zero %2F")
	get := func(bearer, path string) answer { return s.send(t, Request{Path: path, Bearer: bearer}) }
	for _, id := range []string{"a/b", "a%2Fb", "/", "a//b", "../b", "a/./b", "a?b#c;d&e=f+g", "%", "'"} {
		key, author := id+Key(), "member "+id
		p.Import(t, key, Comment(title).With(Fields{"uuid": author})).WantPost(t, http.StatusCreated)
		found := get(p.APIKey, "/api/integrations/deliveries/"+url.PathEscape(key)+"?operation=posts")
		if found.Status != http.StatusOK || !bytes.Contains(found.Body, []byte(strconv.Quote(key))) {
			t.Errorf("delivery %s: %d %s %v", key, found.Status, found.Body, found.err)
		}
		testdb.Eventually(t, "author "+author+" is known", func() bool { // once a projection has the comment
			return get(s.registers.APIKey, p.authorPath(url.PathEscape(author))).Status == http.StatusOK
		})
	}
	for _, path := range []string{
		"/api%2Fadmin/integrations", "/api/%61dmin/integrations", "//api/admin/integrations", "/api/x/../admin/integrations",
	} {
		if found := get(s.registers.APIKey, path); found.Status != http.StatusNotFound ||
			!bytes.Contains(found.Body, []byte(`not_found`)) {
			t.Errorf("%s: %d %s %v", path, found.Status, found.Body, found.err)
		}
	}
}

// wantSizes sends the largest comment, and larger ones.
func wantSizes(t *testing.T, s *Service) {
	t.Helper()
	const limit = 32_768
	p := s.NewPartner(t)
	body := Comment(Unique("Sizes")).With(Fields{"content": strings.Repeat("x", 20_000)}).JSON(t)
	sized := func(n int) []byte { return slices.Concat(body, bytes.Repeat([]byte(" "), n-len(body))) }
	s.Send(t, p.Request(PostsPath, Key(), sized(limit))).WantPost(t, http.StatusCreated)
	for _, size := range []int{limit + 1, 100_000, 1 << 20} {
		request := p.Request(PostsPath, Key(), sized(size))
		s.Send(t, request).WantProblem(t, http.StatusRequestEntityTooLarge, "payload_too_large")
		request.Chunked = true
		s.Send(t, request).WantProblem(t, http.StatusRequestEntityTooLarge, "payload_too_large")
	}
}

// wantBulk sends the largest bulk request, and a larger one.
func wantBulk(t *testing.T, s *Service) {
	t.Helper()
	const limit, lines = 16 << 20, 300
	p, title := s.NewImporter(t), Unique("Bulk")
	var body strings.Builder
	fields := Comment(title).With(Fields{"content": strings.Repeat("y", 15_000)})
	for i := range lines {
		body.WriteString(PostLine(t, fmt.Sprint("line-", i), fields))
	}
	body.WriteString(strings.Repeat("\n", limit-body.Len()))
	outcomes := p.Bulk(t, body.String())
	if len(outcomes) != lines {
		t.Errorf("%d outcomes, want %d", len(outcomes), lines)
	}
	for _, o := range outcomes {
		if o.Status != http.StatusCreated {
			t.Errorf("%+v", o)
		}
	}
	request := p.Request(bulkPath, "", []byte(body.String()+"\n"))
	request.ContentType = "application/x-ndjson"
	s.Send(t, request).WantProblem(t, http.StatusRequestEntityTooLarge, "payload_too_large")
	request.Chunked = true
	s.Send(t, request).WantProblem(t, http.StatusRequestEntityTooLarge, "payload_too_large")
}

// wantRefusals: problems arrive with their headers.
func wantRefusals(t *testing.T, s *Service) {
	t.Helper()
	p, title := s.NewPartner(t, Fields{"postsPerMinute": 1}), Unique("Refusals")
	p.Import(t, Key(), Comment(title)).WantPost(t, http.StatusCreated)
	limited := p.Import(t, Key(), Comment(title))
	limited.WantProblem(t, http.StatusTooManyRequests, "rate_limited")
	if limited.Header.Get("Retry-After") == "" || limited.Header.Get("RateLimit") == "" {
		t.Errorf("no time to wait: %v", limited.Header)
	}
	p.Import(t, Key(), Fields{"novel": title}).WantProblem(t, http.StatusBadRequest, "invalid_request")
	s.Send(t, Request{Path: "/api/integrations/me"}).WantProblem(t, http.StatusUnauthorized, "unauthorized")
	s.Send(t, Request{Method: http.MethodPut, Path: PostsPath}).
		WantProblem(t, http.StatusMethodNotAllowed, "method_not_allowed")
}

// wantPages reads a page, which is not read again while it is the same.
func wantPages(t *testing.T, s *Service) {
	t.Helper()
	page := s.send(t, Request{Path: "/novels"})
	if page.Status != http.StatusOK || !bytes.Contains(page.Body, []byte("</html>")) {
		t.Errorf("%d %s %v", page.Status, page.Body, page.err)
	}
	terms := s.send(t, Request{Path: "/robots.txt"})
	again := s.send(t, Request{Path: "/robots.txt", Header: http.Header{"If-None-Match": {terms.Header.Get("Etag")}}})
	if again.Status != http.StatusNotModified {
		t.Errorf("%d %v %v", again.Status, again.err, terms.Header)
	}
}

// startLiveStream follows the change feed. follow wants a change and, after 15 s of silence, an empty line, at once.
func startLiveStream(t *testing.T, s *Service) (follow func()) {
	t.Helper()
	p := s.NewPartner(t)
	novel := p.Upsert(t, Key(), Fields{"novel": Unique("Live")}).WantNovel(t, http.StatusCreated)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	r := testdb.Must(http.NewRequestWithContext(ctx, http.MethodGet,
		s.URL+"/api/integrations/changes?follow=true&cursor=now", nil))(t)
	r.Header.Set("Authorization", "Bearer "+p.APIKey)
	r.Header.Set("Accept", "application/x-ndjson")
	response, err := s.http.Do(r) // the header arrives before the first line
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	s.registers.Reject(t, novel.NovelID)
	rejected := time.Now()
	return func() {
		defer cancel()
		lines := bufio.NewScanner(response.Body)
		for _, want := range []struct {
			line  string
			after time.Duration
		}{{`"type":"novel.rejected"`, 0}, {"", 15 * time.Second}} {
			for more := lines.Scan(); more && want.line != "" && lines.Text() == ""; more = lines.Scan() {
				continue // nothing has happened yet
			}
			if !strings.Contains(lines.Text(), want.line) || (want.line == "") != (lines.Text() == "") {
				t.Errorf("%q, %v, want %q", lines.Text(), lines.Err(), want.line)
			}
			if late := time.Since(rejected) - want.after; late > 10*time.Second {
				t.Errorf("%q comes %v late", lines.Text(), late)
			}
		}
	}
}

// wantSlowClientRefused sends a header that does not end: the load balancer closes the connection.
func wantSlowClientRefused(t *testing.T, r *balanced) {
	conn, err := tls.Dial("tcp", r.address, &tls.Config{RootCAs: r.trusted, ServerName: balancedHost})
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close() }()
	_, err = conn.Write([]byte("GET /healthz HTTP/1.1\r\nHost: " + balancedHost + "\r\n"))
	began := time.Now()
	if err == nil {
		err = conn.SetReadDeadline(began.Add(25 * time.Second))
	}
	if err == nil {
		_, err = io.ReadAll(conn)
	}
	if os.IsTimeout(err) {
		t.Errorf("%s serves a slow client for %v", r.program, time.Since(began))
	}
}

// wantNothingLost sends commands while replicas are killed and restarted.
func (r *balanced) wantNothingLost(t *testing.T) {
	t.Helper()
	l := newLoad(t, newPartner(t, r.databaseURL), r.versions[:]...)
	l.stubborn, l.gateway, l.pause = true, true, 10*time.Millisecond
	l.start(8)
	failed := func() (n int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for status, times := range l.statuses {
			if status != http.StatusOK && status != http.StatusCreated {
				n += times
			}
		}
		return n
	}
	// The client repeats as the guide for partners says, and never fails.
	var clients sync.WaitGroup
	for i, s := range r.versions {
		c, title := r.client(t, s), Unique("Repeated")
		clients.Go(func() {
			for n := 0; !l.stopped.Load(); n++ {
				key := fmt.Sprintf("repeated-%d-%d", i, n)
				if _, err := c.Posts.Create(context.Background(), key,
					client.Post{UUID: planted, Username: planted, Novel: title, Content: planted}); err != nil {
					t.Errorf("%s: %v", key, err)
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	serves := func(i int) {
		t.Helper()
		testdb.Eventually(t, "the load balancer uses the replica again", func() bool {
			return strings.Contains(r.replicas[i].metrics(t), `route="`+PostsPath+`"`)
		})
	}
	l.await(100)
	r.replicas[0].kill()
	l.await(100)
	r.startReplica(t, 0)
	serves(0)
	killed := failed()
	for i := range r.replicas {
		r.replicas[i].Stop(t)
		l.await(100)
		r.startReplica(t, i)
		serves(i)
	}
	restarted := failed() - killed
	other := r.versions[0].NewPartner(t)
	for i := range r.replicas {
		r.replicas[i].kill()
	}
	testdb.Eventually(t, "the load balancer says that nothing answers", func() bool {
		return other.comment(t, r.versions[0], "Away", "away").fromGateway()
	})
	for i := range r.replicas {
		r.startReplica(t, i)
	}
	l.await(100)
	l.stop()
	clients.Wait()
	l.settle(r.versions[1], r.databaseURL)
	t.Logf("requests without success: %d after kill -9, %d in a rolling restart", killed, restarted)
}
