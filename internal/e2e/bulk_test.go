package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

func TestBulk(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewImporter(t, Fields{"linesPerMinute": 3})
	title := Unique("Bulk")
	outcomes := p.Bulk(t, NovelLine(t, "novel", Fields{"novel": title, "author": "Ada"})+
		PostLine(t, "reply", Comment(title).With(Fields{"parent_uuid": "parent"}))+"\n"+PostLine(t, "parent", Comment(title))+
		PostLine(t, "more", Comment(title))+"bad\n")
	if len(outcomes) != 5 {
		t.Fatalf("%d outcomes: %+v", len(outcomes), outcomes)
	}
	live := p.Import(t, "reply", Comment(title).With(Fields{"parent_uuid": "parent"})).WantPost(t, 200)
	if reply := outcomes[1]; reply.PostID != live.PostID || reply.ThreadID != live.ThreadID || reply.URL != live.URL ||
		reply.ParentPostID != outcomes[2].PostID || reply.Status != 201 {
		t.Errorf("line 2 is %+v, its replay %+v", reply, live)
	}
	if novel := p.Upsert(t, "novel", Fields{"novel": title}).WantNovel(t, 200); novel.NovelID != outcomes[0].NovelID {
		t.Errorf("line 1 is %+v, its replay %+v", outcomes[0], novel)
	}
	if more := outcomes[3]; more.Line != 5 || more.Problem == nil || more.Problem.Code != "rate_limited" || more.RetryAfter < 1 {
		t.Errorf("beyond the limit: %+v", more)
	}
	if bad := outcomes[4]; bad.Line != 6 || bad.Status != 400 {
		t.Errorf("the last line: %+v", bad)
	}
}

// badCommand is a command that is refused.
type badCommand struct{ operation, key, body string }

// badCommands returns commands that are refused for their bodies or keys. title is that of a novel which the key
// "misused" upserted, rejected one that staff rejected.
func badCommands(title, rejected string) map[string]badCommand {
	good := `"uuid":"u","username":"n","novel":"` + title + `","content":`
	return map[string]badCommand{
		"missing field":      {"posts", Key(), `{"uuid":"u","novel":"` + title + `","content":"c"}`},
		"several fields":     {"posts", Key(), `{"uuid":"","username":"","novel":"` + title + `","content":" "}`},
		"HTML":               {"posts", Key(), `{` + good + `"<b>c</b>"}`},
		"number for text":    {"posts", Key(), `{` + good + `7}`},
		"duplicate member":   {"posts", Key(), `{` + good + `"c","content":"d"}`},
		"wrong case":         {"posts", Key(), `{` + good + `"c","Timestamp":"2020-01-01T00:00:00Z"}`},
		"invalid UTF-8":      {"posts", Key(), `{` + good + "\"c\xff\"}"},
		"lone surrogate":     {"posts", Key(), `{` + good + `"\ud800"}`},
		"NUL":                {"posts", Key(), `{` + good + `"\u0000"}`},
		"far future":         {"posts", Key(), `{` + good + `"c","timestamp":"2999-01-01T00:00:00Z"}`},
		"chapter":            {"posts", Key(), `{` + good + `"c","chapterNumber":-1}`},
		"array":              {"posts", Key(), `[]`},
		"null":               {"posts", Key(), `null`},
		"33 KB":              {"posts", Key(), `{` + good + `"` + strings.Repeat("c", 33_000) + `"}`},
		"rejected title":     {"posts", Key(), `{"uuid":"u","username":"n","novel":"` + rejected + `","content":"c"}`},
		"rejected novel":     {"novels", Key(), `{"novel":"` + rejected + `"}`},
		"private cover":      {"novels", Key(), `{"novel":"N","coverUrl":"https://10.0.0.1/c.png"}`},
		"key with a space":   {"posts", "a key", `{` + good + `"c"}`},
		"key too long":       {"novels", strings.Repeat("k", 256), `{"novel":"` + title + `"}`},
		"key with one quote": {"posts", `"k`, `{` + good + `"c"}`},
		"misused key":        {"novels", "misused", `{"novel":"` + Unique("Other") + `"}`},
	}
}

// TestBulkRefusesALineAsTheLiveInterfaceDoes sends bad bodies and keys both ways.
func TestBulkRefusesALineAsTheLiveInterfaceDoes(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := s.NewImporter(t)
	title, rejected := Unique("Good"), Unique("Rejected")
	p.Upsert(t, Key(), Fields{"novel": title}).WantNovel(t, 201)
	p.Upsert(t, Key(), Fields{"novel": rejected}).WantNovel(t, 201)
	p.Upsert(t, "misused", Fields{"novel": title}).WantNovel(t, 200)
	s.Moderate(t, "reject", rejected)
	cases := badCommands(title, rejected)
	var names []string
	var text strings.Builder
	for name, c := range cases {
		names = append(names, name)
		object := string(Fields{"k": c.key}.JSON(t))
		key := strings.TrimSuffix(strings.TrimPrefix(object, `{"k":`), "}") // as a JSON string
		fmt.Fprintf(&text, "{\"operation\":%q,\"idempotencyKey\":%s,\"body\":%s}\n", c.operation, key, c.body)
	}
	request := p.bulkRequest(text.String())
	request.Header = http.Header{"X-Request-Id": {"bulk"}}
	outcomes := bulkOutcomes(t, s.Send(t, request).Body)
	if len(outcomes) != len(cases) {
		t.Fatalf("%d outcomes, want %d", len(outcomes), len(cases))
	}
	for n, o := range outcomes {
		c := cases[names[n]]
		var live Problem
		response := s.Send(t, p.Request("/api/integrations/"+c.operation, c.key, []byte(c.body)))
		response.WantJSON(t, response.Status, &live)
		if o.Problem == nil || o.Status != response.Status || o.Problem.RequestID != fmt.Sprintf("bulk/%d", n+1) {
			t.Errorf("%s: %+v, live %d", names[n], o, response.Status)
			continue
		}
		got := *o.Problem
		got.RequestID, live.RequestID = "", ""
		if live.Code == "invalid_idempotency_key" { // names the header
			live.Detail = strings.Replace(live.Detail, "The Idempotency-Key header", "The idempotencyKey", 1)
		}
		if live.Field == "timestamp" { // says when it was received
			got.Detail, live.Detail, got.Errors, live.Errors = "", "", nil, nil
		}
		if fmt.Sprint(got) != fmt.Sprint(live) {
			t.Errorf("%s:\nbulk %+v\nlive %+v", names[n], got, live)
		}
	}
}

// storedComments lists comments in the tables, without values that differ between databases.
const storedComments = `SELECT concat_ws('|', e.event_id, e.personal, n.title, p.written_at, p.depth, p.chapter_number,
	(SELECT f.event_id FROM events f WHERE f.stream_id = p.parent_post_id AND f.stream_version = 1),
	(SELECT r.event_id FROM events r WHERE r.stream_id = p.root_post_id AND r.stream_version = 1))
FROM posts p JOIN events e ON e.stream_id = p.post_id AND e.stream_version = 1 JOIN novels n ON n.novel_id = p.novel_id ORDER BY 1`

// TestBulkSurvivesKills kills the service at random moments of a request, and repeats the request until its answer is
// complete. It compares the tables with the same comments sent live. NOVELGATE_TEST_BULK_LINES sets their number.
func TestBulkSurvivesKills(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	const perRequest = 9_000
	n := scaled(t, "NOVELGATE_TEST_BULK_LINES", perRequest)
	databaseURL, liveURL := testdb.New(t), testdb.New(t)
	live := Start(t, liveURL).NewImporter(t, Fields{"postsPerMinute": 100_000_000})
	p := Start(t, databaseURL).NewImporter(t)
	var liveTime, bulkTime time.Duration
	created := 0
	for first := 0; first < n; first += perRequest {
		lines, parents := thread(t, fmt.Sprint("Killed ", first), fmt.Sprint(first, "-"), min(perRequest, n-first))
		began := time.Now()
		sendLive(t, live, lines, parents)
		liveTime += time.Since(began)

		spoiled, failed := spoil(t, lines)
		began = time.Now()
		var outcomes []BulkOutcome
		for kills := 5; len(outcomes) < len(spoiled); kills-- {
			killAfter := 0 // never
			if kills > 0 && first == 0 {
				killAfter = 1 + rand.IntN(len(spoiled)-1)
			}
			outcomes = p.bulkUntil(t, strings.Join(spoiled, ""), killAfter)
			for _, o := range outcomes {
				if o.Problem == nil && !o.Replayed {
					created++
				}
			}
			if killAfter > 0 {
				p.Service = Start(t, databaseURL)
			}
		}
		bulkTime += time.Since(began)
		for k, o := range outcomes {
			if o.Line != k+1 || (o.Problem != nil) != failed[k] {
				t.Fatalf("outcome %d is %+v %+v, failed: %v", k+1, o, o.Problem, failed[k])
			}
		}
	}
	if created > n {
		t.Errorf("%d comments were created, of %d", created, n)
	}
	t.Logf("%d comments live in %v, in bulk in %v; most memory %s", n, liveTime, bulkTime, p.Service.mostMemory(t))
	for _, url := range []string{liveURL, databaseURL} {
		awaitProjections(t, url, readLog(t, url))
	}
	want, got := rowsOf(t, liveURL, storedComments), rowsOf(t, databaseURL, storedComments)
	if diff := without(want, got); len(want) != n || len(got) != n || len(diff) > 0 {
		t.Errorf("%d comments live, %d in bulk; missing: %.5v", len(want), len(got), diff)
	}
}

// bulkUntil sends lines, and kills the service after a number of outcomes, 0 for never. It returns the outcomes that
// arrive.
func (p *Partner) bulkUntil(t testing.TB, lines string, outcomes int) []BulkOutcome {
	t.Helper()
	request, err := p.Service.httpRequest(context.Background(), p.bulkRequest(lines))
	if err != nil {
		t.Fatal(err)
	}
	response := testdb.Must(p.Service.http.Do(request))(t)
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("bulk request: %d", response.StatusCode)
	}
	var answer []byte
	arrived := bufio.NewReader(response.Body)
	for {
		line, err := arrived.ReadBytes('\n')
		if err != nil { // the end of the answer, or of the service
			return bulkOutcomes(t, answer)
		}
		answer = append(answer, line...)
		if outcomes--; outcomes == 0 {
			p.Service.kill()
		}
	}
}

func rowsOf(t testing.TB, databaseURL, query string) []string {
	t.Helper()
	return value[[]string](t, databaseURL, "SELECT array_agg(r) FROM ("+query+") AS q (r)")
}

// sendLive sends the bodies of lines to the live interface, parents first.
func sendLive(t testing.TB, p *Partner, lines []string, parents map[string]string) {
	t.Helper()
	byKey := map[string][]byte{}
	for _, line := range lines {
		_, rest, _ := strings.Cut(line, `"body":`)
		body, rest, _ := strings.Cut(rest, `,"idempotencyKey":"`)
		key, _, _ := strings.Cut(rest, `"`)
		byKey[key] = []byte(body)
	}
	for sent := map[string]bool{}; len(sent) < len(byKey); {
		var level []string
		for key := range byKey {
			if parent := parents[key]; !sent[key] && (parent == "" || sent[parent]) {
				level = append(level, key)
			}
		}
		keys := make(chan string)
		var senders sync.WaitGroup
		for range 64 {
			senders.Go(func() {
				for key := range keys {
					for a := (answer{}); !a.succeeded(); {
						a = p.send(t, p.Service.URL, PostsPath, key, byKey[key], false)
					}
				}
			})
		}
		for _, key := range level {
			keys <- key
			sent[key] = true
		}
		close(keys)
		senders.Wait()
	}
}

// thread returns lines with comments in random order, of which two in three answer another one, as the map says.
func thread(t testing.TB, title, prefix string, n int) (lines []string, parents map[string]string) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	parents = map[string]string{}
	for k := range n {
		key, fields := fmt.Sprint(prefix, k), Comment(title)
		fields["uuid"], fields["timestamp"] = fmt.Sprintf("member-%d", k%997), fmt.Sprintf("2020-01-01T00:%02d:%02dZ", k/60%60, k%60)
		if k > 0 && random.IntN(3) > 0 {
			parents[key] = fmt.Sprint(prefix, random.IntN(k))
			fields["parent_uuid"] = parents[key]
		}
		lines = append(lines, PostLine(t, key, fields))
	}
	random.Shuffle(n, func(a, b int) { lines[a], lines[b] = lines[b], lines[a] })
	return lines, parents
}

// spoil returns lines among which one in a hundred of the given ones has a byte order mark, ends with CRLF, or comes
// after a line that fails. The last line has no end. failed tells which fail.
func spoil(t testing.TB, lines []string) (spoiled []string, failed []bool) {
	t.Helper()
	bad := []string{
		PostLine(t, "33-kb", Comment("Bad").With(Fields{"content": strings.Repeat("x", 33_000)})),
		strings.Replace(PostLine(t, "utf-8", Comment("Bad")), "A comment.", "A \xff.", 1),
		strings.Replace(PostLine(t, "twice", Comment("Bad")), `"username"`, `"novel":"Bad","username"`, 1),
		`{"operation":"posts","idempotencyKey":"a","idempotencyKey":"b","body":{}}` + "\n",
		PostLine(t, "cut", Comment("Bad"))[:60] + "\n",
	}
	for k, line := range lines {
		if k%100 == 99 {
			switch kind := k / 100 % (len(bad) + 2); kind {
			case len(bad):
				line = "\ufeff" + line
			case len(bad) + 1:
				line = strings.TrimSuffix(line, "\n") + "\r\n"
			default:
				spoiled, failed = append(spoiled, bad[kind]), append(failed, true)
			}
		}
		spoiled, failed = append(spoiled, line), append(failed, false)
	}
	last := len(spoiled) - 1
	spoiled[last] = strings.TrimSuffix(spoiled[last], "\n")
	return spoiled, failed
}
