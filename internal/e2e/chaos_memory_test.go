package e2e_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
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

// wantPeak checks that a service has used at most some MB.
func wantPeak(t testing.TB, r *Service, most int, what string) {
	t.Helper()
	peak := residentPeak(t, r.process)
	t.Logf("%s took %d MB", what, peak)
	if peak > most {
		t.Errorf("at most %d MB are wanted", most)
	}
}

// besieged starts a service with a partner on its own database.
func besieged(t *testing.T, flags ...string) (database string, r *Service, p *Partner) {
	t.Helper()
	database = testdb.New(t)
	r = serve(t, database, slices.Concat(unsafe, flags)...)
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
	r := serve(t, database, slices.Concat(unsafe, patient)...)
	testdb.Eventually(t, "all projections and the ledger have caught up", func() bool {
		return value[bool](t, database, `SELECT count(*) > 3 AND bool_and(position = $1)
			AND (SELECT tree_size FROM ledger_state) = $1 AND (SELECT count(*) FROM posts) = $1 FROM projections`, comments)
	})
	wantPeak(t, r, most, "catching up")
}

// TestMemoryOfReadersWhoDoNotRead opens 1,000 connections that request the largest page and do not read it.
func TestMemoryOfReadersWhoDoNotRead(t *testing.T) {
	t.Parallel()
	const connections, most = 1000, 300 // MB
	database, r, p := besieged(t)
	p.insist(t, r, "Large", "first")
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
	testdb.Eventually(t, "the unsent answers take their share of memory", func() bool {
		refused, _ := strconv.ParseFloat(metric(r.metrics(t), "novelgate_readers_refused_total"), 64)
		return refused > 0
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
	wantPeak(t, r, most, "readers who do not read")
}

// TestMemoryOfConnections opens connections that send something and then stall: most of a body, with the key of one
// partner; a complete request, on most of the allowed connections; most of a header after a complete request, on more
// than the default limit of connections. Other clients are served meanwhile.
func TestMemoryOfConnections(t *testing.T) {
	t.Parallel()
	const most = 300 // MB
	const request = "GET /healthz HTTP/1.1\r\nHost: x\r\n"
	refusals := regexp.MustCompile(`(?m)^novelgate_http_requests_total{.*status="(?:408|429|503)"} (\S+)$`)
	body := func(path string, sent, length int) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer KEY\r\nIdempotency-Key: k\r\n"+
			"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, length, strings.Repeat(" ", sent))
	}
	for name, c := range map[string]struct {
		connections, allowed int
		sent                 string
		answered             bool
	}{
		"comments":   {8000, 10_000, body(PostsPath, 31<<10, 32<<10), false},
		"deliveries": {1000, 10_000, body("/api/integrations/deliveries/reconcile", 500<<10, 512<<10), false},
		"idle":       {7900, 8000, request + "\r\n", true},
		"headers": {
			3000, 2000, request + "\r\n" + request + strings.Repeat("A: "+strings.Repeat("x", 110)+"\r\n", 60), false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			database, r, p := besieged(t, "--connections", strconv.Itoa(c.allowed))
			sent := strings.Replace(c.sent, "KEY", newPartner(t, database).APIKey, 1)
			for i := range c.connections {
				conn := openConnection(t, r.URL)
				if !c.answered {
					// The service may refuse the request and close before the end.
					go func() { _, _ = io.WriteString(conn, sent) }()
					continue
				}
				say(t, conn, sent)
				if _, err := io.ReadAtLeast(conn, make([]byte, 1024), len("HTTP/1.1 200 OK")); err != nil {
					t.Fatalf("connection %d is not answered: %v", i, err)
				}
			}
			if strings.Contains(sent, "POST") {
				testdb.Eventually(t, "every body is awaited or refused", func() bool {
					found := r.metrics(t)
					there, _ := strconv.ParseFloat(metric(found, "go_goroutines"), 64)
					for _, refused := range refusals.FindAllStringSubmatch(found, -1) {
						n, _ := strconv.ParseFloat(refused[1], 64)
						there += n
					}
					return there >= float64(c.connections)
				})
			}
			wantServed(t, p, r)
			r.awaitReady(t)
			open, _ := strconv.Atoi(metric(r.metrics(t), "novelgate_connections"))
			if open > c.allowed || c.answered && open < 7900 {
				t.Errorf("%d connections are open, at most %d are allowed", open, c.allowed)
			}
			wantPeak(t, r, most, fmt.Sprintf("%d connections with %s", c.connections, name))
		})
	}
}

// wantServed checks that comments are accepted meanwhile.
func wantServed(t *testing.T, p *Partner, r *Service) {
	t.Helper()
	for i := range 20 {
		p.insist(t, r, "Large", fmt.Sprint("meanwhile-", i))
	}
}

// openConnection opens a connection that stays open until the test ends.
func openConnection(t *testing.T, base string) net.Conn {
	t.Helper()
	c := testdb.Must(net.Dial("tcp", strings.TrimPrefix(base, "http://")))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	testdb.Must(io.WriteString(c, text))(t)
}
