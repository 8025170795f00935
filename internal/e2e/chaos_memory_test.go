package e2e_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// residentPeak returns the peak memory of a process, in MB.
func residentPeak(t testing.TB, p *process) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Skipf("the memory of a process cannot be read here: %v", err)
	}
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		t.Fatalf("no VmHWM in\n%s", status)
	}
	kilobytes, _ := strconv.Atoi(string(found[1])) // digits by the expression above
	return kilobytes / 1024
}

// wantPeak checks that a service has used at most most MB.
func wantPeak(t testing.TB, r *Service, most int, what string, n int) {
	t.Helper()
	what = fmt.Sprintf(what, n)
	peak := residentPeak(t, r.process)
	t.Logf("%s took %d MB", what, peak)
	if peak > most {
		t.Errorf("at most %d MB are wanted", most)
	}
}

// wantConnections checks that there are open connections, at most allowed.
func wantConnections(t testing.TB, r *Service, allowed int) {
	t.Helper()
	if open, _ := strconv.Atoi(metric(r.metrics(t), "novelgate_connections")); open == 0 || open > allowed {
		t.Errorf("%d connections are open, at most %d are allowed", open, allowed)
	}
}

// besieged starts a service with a partner on its own database.
func besieged(t *testing.T, flags ...string) (database string, r *Service, p *Partner) {
	t.Helper()
	database = testdb.New(t)
	r = serve(t, database, append([]string{"--allow-unsafe-durability"}, flags...)...)
	return database, r, newPartner(t, database)
}

// largeComments appends comments of 31 KB, which the database compresses well, and gzip not at all.
const largeComments = `INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, integration_id,
    event_source, event_type, data, personal, salt, batch_id)
SELECT n - 1, 'post', encode(substring(sha256(uuid_send(i) || convert_to('large-' || n, 'UTF8')) FOR 16), 'hex')::uuid,
    1, 'large-' || n, i, 'posts', 'post.imported.v1',
    json_build_object('novelId', '03000000-0000-7000-8000-000000000003',
        'threadId', '04000000-0000-7000-8000-000000000004', 'writtenAt', '2026-01-01T00:00:00Z'),
    json_build_object('uuid', 'user-' || mod(n, 500), 'username', 'Name', 'content', n || repeat(' word', 6200)),
        gen_random_uuid(), gen_random_uuid()
FROM generate_series(1, %d) AS n, (SELECT uuid '01000000-0000-7000-8000-000000000001') AS o (i)`

// TestMemoryOfCatchingUp starts a service whose projections and ledger are 6,000 large comments behind: 190 MB in all,
// which take more than twice as much once decoded.
func TestMemoryOfCatchingUp(t *testing.T) {
	t.Parallel()
	const most = 400 // MB
	database := testdb.New(t)
	const comments = 6000
	execute(t, database, fmt.Sprintf(largeComments, comments))
	r := serve(t, database, append([]string{"--allow-unsafe-durability"}, patient...)...)
	testdb.Eventually(t, "all projections and the ledger have caught up", func() bool {
		return value[bool](t, database, `SELECT count(*) > 3 AND bool_and(position = $1)
			AND (SELECT tree_size FROM ledger_state) = $1 AND (SELECT count(*) FROM posts) = $1 FROM projections`, comments)
	})
	wantPeak(t, r, most, "catching up with %d comments of 31 KB", comments)
}

// TestMemoryOfReadersWhoDoNotRead opens 1,000 connections that request the largest page and do not read it.
func TestMemoryOfReadersWhoDoNotRead(t *testing.T) {
	t.Parallel()
	const connections, most = 1000, 300 // MB
	database, r, p := besieged(t)
	testdb.Eventually(t, "the first comment is taken", func() bool {
		return p.send(t, r.URL, PostsPath, "first", encode(comment("Large", "reader", "x")), false).succeeded()
	})
	insertEvents(t, database, `WITH keys AS (
			SELECT n, r, n || '/' || r AS key, CASE WHEN r > 0 THEN n || '/0' END AS top, integration_id
			FROM integrations, generate_series(1, 100) AS n, generate_series(0, 11) AS r
		), written AS (
			SELECT n, r, key, integration_id,
				encode(substring(sha256(uuid_send(integration_id) || convert_to(key, 'UTF8')) FOR 16), 'hex')::uuid AS id,
				encode(substring(sha256(uuid_send(integration_id) || convert_to(top, 'UTF8')) FOR 16), 'hex')::uuid AS top_id
			FROM keys
		)
		INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, integration_id, event_source,
			event_type, data, personal, batch_id)
		SELECT (SELECT max(log_index) FROM events) + row_number() OVER (ORDER BY n, r), 'post', id, 1, key,
			integration_id, 'posts', 'post.imported.v1',
			json_strip_nulls(json_build_object('novelId', t.novel_id, 'threadId', t.thread_id, 'parentPostId', top_id,
				'writtenAt', now() - n * interval '1 minute')),
			json_build_object('uuid', key, 'username', 'x', 'content', repeat('&', 31000)), id
		FROM written, threads AS t`)
	testdb.Eventually(t, "the comments are in the discussion", func() bool {
		return value[int](t, database, `SELECT count(*) FROM posts`) == 1201
	})
	for range connections {
		c := openConnection(t, r.URL)
		if err := c.(*net.TCPConn).SetReadBuffer(4096); err != nil {
			t.Fatal(err)
		}
		say(t, c, "GET /novels/large/discussion?limit=100 HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	number := func(name string) float64 {
		n, _ := strconv.ParseFloat(metric(r.metrics(t), name), 64)
		return n
	}
	testdb.Eventually(t, "the unsent answers take their share of memory", func() bool {
		return number("novelgate_readers_refused_total") > 0
	})
	// Other clients are served meanwhile, readers too.
	wantServed(t, p, r)
	for _, path := range []string{"/healthz", "/novels", "/novels/large"} {
		testdb.Eventually(t, path+" is answered while others do not read", func() bool {
			status, _ := Get(t, r.URL+path)
			return status == http.StatusOK
		})
	}
	testdb.Eventually(t, "those who do not read are cut off, and a large page is answered", func() bool {
		status, _ := Get(t, r.URL+"/novels/large/discussion?limit=100")
		return status == http.StatusOK
	})
	wantPeak(t, r, most, "%d readers who do not read", connections)
}

// TestMemoryOfStalledBodies opens connections of one partner that send most of a body and then stall.
func TestMemoryOfStalledBodies(t *testing.T) {
	t.Parallel()
	const most = 300 // MB
	for name, c := range map[string]struct{ connections, sent, length int }{
		PostsPath:                                {8000, 31 << 10, 32 << 10},
		"/api/integrations/deliveries/reconcile": {1000, 500 << 10, 512 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			database, r, p := besieged(t, "--connections", "10000")
			staller := newPartner(t, database)
			for range c.connections {
				conn := openConnection(t, r.URL)
				say(t, conn, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
					"Idempotency-Key: k\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
					name, staller.APIKey, c.length))
				// The service may refuse the request and close before the end.
				go func() { _, _ = io.WriteString(conn, strings.Repeat(" ", c.sent)) }()
			}
			testdb.Eventually(t, "every body is awaited or refused", func() bool {
				found := r.metrics(t)
				there, _ := strconv.ParseFloat(metric(found, "go_goroutines"), 64)
				for _, refusal := range []string{"rate_limited", "unavailable", "request_timeout"} {
					for _, status := range []int{429, 503, 408} {
						n, _ := strconv.ParseFloat(metric(found, fmt.Sprintf(
							`novelgate_http_requests_total{code=%q,method="POST",route=%q,status="%d"}`, refusal, name, status)), 64)
						there += max(n, 0)
					}
				}
				return there >= float64(c.connections)
			})
			// Other clients are served meanwhile.
			wantServed(t, p, r)
			r.awaitReady(t)
			wantPeak(t, r, most, "%d bodies that do not arrive", c.connections)
		})
	}
}

// wantServed checks that comments are accepted meanwhile.
func wantServed(t *testing.T, p *Partner, r *Service) {
	t.Helper()
	for i := range 20 {
		testdb.Eventually(t, "a comment is taken", func() bool { // on a busy machine a request may run out of time
			return p.send(t, r.URL, PostsPath, fmt.Sprint("meanwhile-", i), encode(comment("Large", "reader", "x")),
				true).succeeded()
		})
	}
}

// openConnection opens a connection that stays open until the test ends.
func openConnection(t *testing.T, base string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	testdb.Must(io.WriteString(c, text))(t)
}

// TestMemoryOfOpenConnections opens most of the allowed connections, each idle after one answer.
func TestMemoryOfOpenConnections(t *testing.T) {
	t.Parallel()
	const allowed, most = 8000, 300 // MB
	_, r, p := besieged(t, "--connections", strconv.Itoa(allowed))
	for i := range allowed - 100 {
		c := openConnection(t, r.URL)
		say(t, c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAtLeast(c, make([]byte, 1024), len("HTTP/1.1 200 OK")); err != nil {
			t.Fatalf("connection %d is not answered: %v", i, err)
		}
	}
	wantServed(t, p, r)
	wantConnections(t, r, allowed)
	wantPeak(t, r, most, "%d open connections", allowed)
}

// TestMemoryOfUnfinishedHeaders opens more connections than the default limit, each of which sends most of a header
// after a complete request.
func TestMemoryOfUnfinishedHeaders(t *testing.T) {
	t.Parallel()
	const connections, allowed, most = 3000, 2000, 300 // MB
	_, r, p := besieged(t)
	const request = "GET /healthz HTTP/1.1\r\nHost: x\r\n"
	for range connections {
		say(t, openConnection(t, r.URL), request+"\r\n"+request+strings.Repeat("A: "+strings.Repeat("x", 110)+"\r\n", 60))
	}
	wantServed(t, p, r)
	wantConnections(t, r, allowed)
	wantPeak(t, r, most, "%d unfinished headers", connections)
}
