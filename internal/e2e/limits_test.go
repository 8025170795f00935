package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// limited registers an integration with limits, by default the standard ones, and a novel for its comments.
func limited(t *testing.T, s *Service, limits Fields) (*Partner, string) {
	t.Helper()
	title := Unique("Limited")
	s.Moderate(t, "publish", title)
	return s.NewPartnerWith(t, Fields{"capabilities": []string{"novels", "posts"}}.With(limits)), title
}

// wantLimited expects 429 and returns Retry-After.
func wantLimited(t *testing.T, response Response, name string) time.Duration {
	t.Helper()
	response.WantProblem(t, 429, "rate_limited")
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < 1 || seconds > 61 {
		t.Errorf("Retry-After %q, want 1 to 61 seconds", response.Header.Get("Retry-After"))
	}
	if left := remaining(t, response, name); left != 0 {
		t.Errorf("%d remain, want 0", left)
	}
	return time.Duration(seconds) * time.Second
}

// remaining returns r of the RateLimit header.
func remaining(t *testing.T, response Response, name string) int {
	t.Helper()
	header := response.Header.Get("RateLimit")
	found := regexp.MustCompile(`"` + name + `";r=(\d+);t=(\d+)`).FindStringSubmatch(header)
	if found == nil {
		t.Fatalf("RateLimit %q says nothing about %s", header, name)
	}
	left, _ := strconv.Atoi(found[1]) // digits by the expression above
	return left
}

// TestSixtyPostsAMinute moves the window into the past instead of waiting for a minute. Tests of commands/ratelimit
// cover the sliding of the window.
func TestSixtyPostsAMinute(t *testing.T) {
	t.Parallel()
	p, title := limited(t, Shared(t), nil)
	send := func() Response { return p.Import(t, Key(), Comment(title)) }
	// On a busy machine sixty posts may take more than a minute.
	age := func(seconds int) {
		value[string](t, p.Service.DatabaseURL, `WITH gone AS (
				DELETE FROM rate_limits WHERE integration_id = $1 AND operation = 'posts' RETURNING permits)
			INSERT INTO rate_limits (integration_id, operation, granted_at, permits, total)
			SELECT $1, 'posts', clock_timestamp() - $2 * interval '1 second', sum(permits), sum(permits) FROM gone
			RETURNING operation`, p.IntegrationID, seconds)
	}
	for i := range 59 {
		send().WantPost(t, 201)
		if i%10 == 9 {
			age(0)
		}
	}
	age(50)
	send().WantPost(t, 201)
	wait := wantLimited(t, send(), "posts")
	if wait > 10*time.Second {
		t.Errorf("Retry-After of %s, although the first posts are 50 seconds old", wait)
	}
	time.Sleep(wait)
	send().WantPost(t, 201)
}

const maxBody = 32_768

// padded extends the body with white space to length bytes, at its end or at its beginning.
func padded(t *testing.T, body []byte, length int, before bool) []byte {
	t.Helper()
	space := bytes.Repeat([]byte(" "), length-len(body))
	if before {
		return append(space, body...)
	}
	return append(body, space...)
}

func TestBodyOfExactlyTheLimitPasses(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	for _, path := range []string{NovelsPath, PostsPath} {
		for _, before := range []bool{false, true} {
			for _, chunked := range []bool{false, true} {
				body := Comment(Unique("Exactly")).JSON(t)
				request := p.Request(path, Key(), padded(t, body, maxBody, before))
				request.Chunked = chunked
				if response := p.Service.Send(t, request); response.Status != 201 {
					t.Errorf("%s: status %d, want 201\n%s", path, response.Status, response.Body)
				}
				body = Comment(Unique("One more")).JSON(t)
				request = p.Request(path, Key(), padded(t, body, maxBody+1, before))
				request.Chunked = chunked
				p.Service.Send(t, request).WantProblem(t, 413, "payload_too_large")
			}
		}
	}
}

// TestHeaderLimits: the longest headers that partners send through proxies are accepted, larger ones refused.
func TestHeaderLimits(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Headers")
	usual := http.Header{
		"Traceparent":     {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		"Tracestate":      {strings.Repeat("t", 512)},
		"X-Request-Id":    {strings.Repeat("r", 128)},
		"X-Forwarded-For": {strings.Repeat("2001:db8:85a3:8d3:1319:8a2e:370:7348, ", 5) + "192.0.2.1"},
		"User-Agent":      {strings.Repeat("u", 300)},
		"Cookie":          {"session=" + strings.Repeat("c", 4096)},
	}
	for i := range 40 {
		usual.Set(fmt.Sprintf("X-Proxy-%d", i), "value")
	}
	send := func(header http.Header) int {
		request := testdb.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, p.Service.URL+PostsPath,
			bytes.NewReader(Comment(title).JSON(t))))(t)
		request.Header = header.Clone()
		request.Header.Set("Authorization", "Bearer "+p.APIKey)
		request.Header.Set("Idempotency-Key", Key()+strings.Repeat("k", 255-len(Key())))
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	if status := send(usual); status != http.StatusCreated {
		t.Errorf("usual headers: status %d, want 201", status)
	}
	large := http.Header{"Cookie": {strings.Repeat("c", 8<<10)}}
	if status := send(large); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a large header: status %d, want 431", status)
	}
}

// TestRefusedBodiesHoldNoConnection: a refused request whose body does not arrive is answered and its connection closed
// long before the 15 s for a body. Otherwise clients without a key could occupy all connections.
func TestRefusedBodiesHoldNoConnection(t *testing.T) {
	t.Parallel()
	const wait = 10 * time.Second
	address := strings.TrimPrefix(Shared(t).URL, "http://")
	for _, line := range []string{
		"GET /api/events", "GET /none", "OPTIONS /novels", "POST /healthz", "POST /none", "POST /api/integrations/posts",
		"POST /api/admin/integrations",
	} {
		for _, field := range []string{"Content-Length: 10", "Transfer-Encoding: chunked"} {
			t.Run(line+" "+field, func(t *testing.T) {
				t.Parallel()
				conn := testdb.Must((&net.Dialer{}).DialContext(t.Context(), "tcp", address))(t)
				defer conn.Close() //nolint:errcheck // it has been read
				if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
					t.Fatal(err)
				}
				head := line + " HTTP/1.1\r\nHost: x\r\n" + field + "\r\n"
				testdb.Must(io.WriteString(conn, head+"\r\n"))(t)
				answer, err := io.ReadAll(conn)
				if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 ") {
					line, _, _ := strings.Cut(string(answer), "\r\n")
					t.Errorf("the answer is %q, and the connection open after %s: %v", line, wait, err)
				}
			})
		}
	}
}
