package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/internal/testdb"
)

func TestUnknownTitleCreatesTheNovel(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Created")
	response := p.Upsert(t, Key(), Fields{
		"novel": title, "author": "Ida Verne", "synopsis": "A boy finds a watch.\nIt runs backwards.",
		"coverUrl": "https://cdn.example.com/1.jpg",
		"genres":   []string{"Fantasy", "Mystery"}, "language": "en", "readingStatus": "ongoing",
	})
	response.WantReplayed(t, false, false)
	novel := response.WantNovel(t, 201)
	if !novel.Created || novel.Updated || novel.Canonical {
		t.Errorf("answer %+v, want created alone", novel)
	}
	want := StoredNovel{
		NovelID: novel.NovelID, Slug: novel.Slug,
		Novel: title, Author: "Ida Verne", Synopsis: "A boy finds a watch.\nIt runs backwards.",
		CoverURL: "https://cdn.example.com/1.jpg",
		Genres:   []string{"Fantasy", "Mystery"}, Language: "en", ReadingStatus: "ongoing", Owner: p.IntegrationID,
		State: "approved",
	}
	var stored StoredNovel
	p.Service.runJSON(t, &stored, "novel", "show", title)
	if diff := cmp.Diff(want, stored); diff != "" {
		t.Errorf("novel show (-want +got)\n%s", diff)
	}
}

func TestStoredPostTellsWhereItBelongs(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Belongs")
	novel := p.Upsert(t, Key(), Fields{"novel": title}).WantNovel(t, 201)
	parent := p.Import(t, "parent", Comment(title)).WantPost(t, 201)
	content := "  First line\r\n\tsecond line \u202eleft\u202c 🐉 \n" // kept as it came, white space and all
	reply := p.Import(t, "reply", Comment(title).With(Fields{
		"parent_uuid": "parent", "content": content, "chapterNumber": json.Number("0.30000000000000004"),
		"timestamp": "1969-07-20T15:17:40.123456-05:00",
	})).WantPost(t, 201)
	const query = `SELECT concat_ws('|', thread_id, novel_id, integration_id, parent_post_id, chapter_number,
		to_char(written_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'), content) FROM analytics.posts WHERE post_id = $1`
	want := strings.Join([]string{
		reply.ThreadID, novel.NovelID, p.IntegrationID, parent.PostID, "0.30000000000000004", "1969-07-20 20:17:40.123456",
		content,
	}, "|")
	stored := ""
	testdb.Eventually(t, "the reply is projected", func() bool {
		stored = value[string](t, p.Service.DatabaseURL, query, reply.PostID)
		return stored != ""
	})
	if diff := cmp.Diff(want, stored); diff != "" {
		t.Errorf("the reply (-want +got)\n%s", diff)
	}
	if !value[bool](t, p.Service.DatabaseURL, `SELECT chapter_number IS NULL AND
		abs(extract(epoch FROM written_at - received_at)) < 30 FROM analytics.posts WHERE post_id = $1`, parent.PostID) {
		t.Error("the parent has a chapter, or was not written when it was received")
	}
}

func TestBothListeners(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	for _, base := range []string{s.URL, s.OpsURL} {
		for _, path := range []string{"/healthz", "/readyz"} {
			testdb.Eventually(t, path+" is 200", func() bool {
				status, _ := Get(t, base+path)
				return status == http.StatusOK
			})
		}
	}
	if !strings.Contains(s.metrics(t), "go_goroutines") {
		t.Error("/metrics lacks those of the Go runtime")
	}
	for path, want := range map[string]int{"": http.StatusOK, "cmdline": http.StatusNotFound} {
		if status, _ := Get(t, s.OpsURL+"/debug/pprof/"+path); status != want {
			t.Errorf("/debug/pprof/%s is %d, want %d", path, status, want)
		}
	}
}

// TestSixtyPostsAMinute moves the window into the past instead of waiting for a minute. Tests of commands/ratelimit
// cover the sliding of the window.
func TestSixtyPostsAMinute(t *testing.T) {
	t.Parallel()
	s, title := Shared(t), Unique("Limited")
	s.NewPartner(t).Upsert(t, Key(), Fields{"novel": title}).WantNovel(t, 201)
	p := s.NewPartnerWith(t, Fields{"capabilities": []string{"posts"}})
	send := func() Response { return p.Import(t, Key(), Comment(title)) }
	// On a busy machine sixty posts may take more than a minute.
	age := func(seconds int) {
		value[string](t, s.DatabaseURL, `WITH gone AS (
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
	age(55)
	send().WantPost(t, 201)
	refused := send()
	refused.WantProblem(t, 429, "rate_limited")
	var seconds int
	if _, err := fmt.Sscan(refused.Header.Get("Retry-After"), &seconds); err != nil || seconds < 1 || seconds > 5 ||
		!strings.Contains(refused.Header.Get("RateLimit"), `"posts";r=0;t=`) {
		t.Errorf("the first posts are 55 seconds old: %v", refused.Header)
	}
	time.Sleep(time.Duration(seconds) * time.Second)
	send().WantPost(t, 201)
}

func TestBodyOfExactlyTheLimitPasses(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	for _, path := range []string{NovelsPath, PostsPath} {
		for _, chunked := range []bool{false, true} {
			body := Comment(Unique("Exactly")).JSON(t)
			request := p.Request(path, Key(), append(body, bytes.Repeat([]byte(" "), 32_768-len(body))...))
			request.Chunked = chunked
			if response := p.Service.Send(t, request); response.Status != 201 {
				t.Errorf("%s: status %d, want 201\n%s", path, response.Status, response.Body)
			}
			request.Body = append([]byte(" "), request.Body...)
			p.Service.Send(t, request).WantProblem(t, 413, "payload_too_large")
		}
	}
}

// TestHeaderLimits: the longest headers that partners send through proxies are accepted, larger ones refused.
func TestHeaderLimits(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
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
	request := p.Request(PostsPath, strings.Repeat("k", 255), Comment(Unique("Headers")).JSON(t))
	request.Header = usual
	p.Service.Send(t, request).WantPost(t, 201)
	request.Header, request.Closing = http.Header{"Cookie": {strings.Repeat("c", 8<<10)}}, true
	fresh := Attach(p.Service.URL)                  // on a used connection, net/http allows more
	response, err := fresh.do(t.Context(), request) // the server may close the connection before it has read the body
	if response.Status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a large header: status %d, want 431 (%v)", response.Status, err)
	}
}

// TestRawConnections: a refused request whose body does not arrive is answered, and its connection closed, long before
// the 15 s for a body; otherwise clients without a key could occupy all connections. A client that closes its side
// after the request gets its answer, as `nc -N` does.
func TestRawConnections(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p, body := s.NewPartner(t), Comment(Unique("Half")).JSON(t)
	command := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nIdempotency-Key: k\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", PostsPath, p.APIKey, len(body), body)
	// The client closes its side of those that are accepted.
	requests := map[string]string{command: "201", "GET /api/novels HTTP/1.1\r\nHost: x\r\n\r\n": "200"}
	for _, line := range []string{"GET /api/events", "GET /none", "POST /healthz", "POST " + PostsPath} {
		for _, field := range []string{"Content-Length: 10", "Transfer-Encoding: chunked"} {
			requests[line+" HTTP/1.1\r\nHost: x\r\n"+field+"\r\n\r\n"] = "4"
		}
	}
	for request, status := range requests {
		t.Run(strings.ReplaceAll(request[:20], "/", "·"), func(t *testing.T) {
			t.Parallel()
			conn := testdb.Must((&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL, "http://")))(t)
			defer conn.Close() //nolint:errcheck // it has been read
			if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			testdb.Must(io.WriteString(conn, request))(t)
			if status[0] == '2' {
				if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+status) {
				t.Errorf("%.30q is answered with %.30q: %v", request, answer, err)
			}
		})
	}
}
