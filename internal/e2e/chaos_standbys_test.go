package e2e_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"novelgate/internal/testdb"
)

// TestReadersOnAStandby: a new comment is found at once, although the standby lacks it, and no answer is older than
// --read-max-lag.
func TestReadersOnAStandby(t *testing.T) {
	t.Parallel()
	const maxLag = 2 * time.Second
	primary, standby := startPair(t)
	r := servePatiently(t, primary.url(), "--read-database-url", standby.url(), "--read-max-lag", maxLag.String())
	p := newPartner(t, primary.url())
	first := remarkOn(t, p, r, "first")
	testdb.Eventually(t, "the comment is on the page", func() bool { return strings.Contains(newestOn(t, r), first) })
	wantStandby(t, r, "1")

	execute(t, standby.url(), `SELECT pg_wal_replay_pause()`)
	second := remarkOn(t, p, r, "second")
	testdb.Eventually(t, "the comment is projected", func() bool {
		return value[bool](t, primary.url(), `SELECT count(*) = 2 FROM posts`)
	})
	projected, stale := time.Now(), time.Time{}
	testdb.Eventually(t, "the second comment is on the page", func() bool {
		asked := time.Now()
		if strings.Contains(newestOn(t, r), second) {
			return true
		}
		stale = asked
		return false
	})
	if late := stale.Sub(projected); late > maxLag {
		t.Errorf("%v later an answer lacks a comment, which is %v too late", late, late-maxLag)
	}
	wantStandby(t, r, "0")
	execute(t, standby.url(), `SELECT pg_wal_replay_resume()`)
	wantStandby(t, r, "1")
}

// TestReadersSeeNoOutage: readers send requests while the standby crashes, returns, and is promoted after the loss of
// the primary. None gets an error.
func TestReadersSeeNoOutage(t *testing.T) {
	t.Parallel()
	primary, standby := startPair(t)
	r := servePatiently(t, primaryOf(t, primary, standby), "--read-database-url", slowly(standby.url()), "--read-max-lag",
		patience.String())
	p := newPartner(t, primary.url())
	first := remarkOn(t, p, r, "first")
	testdb.Eventually(t, "the comment is on the page", func() bool { return strings.Contains(newestOn(t, r), first) })
	wantStandby(t, r, "1")

	var readers sync.WaitGroup
	var answers atomic.Int64
	var stopped atomic.Bool
	for range 4 {
		readers.Go(func() {
			for !stopped.Load() {
				newestOn(t, r)
				answers.Add(1)
			}
		})
	}
	defer readers.Wait()
	defer stopped.Store(true)
	answered := func() {
		t.Helper()
		before := answers.Load()
		testdb.Eventually(t, "readers are answered", func() bool { return answers.Load() > before+20 })
	}

	standby.crash(t)
	wantStandby(t, r, "0")
	remarkOn(t, p, r, "second")
	answered()
	standby.start(t)
	wantStandby(t, r, "1")

	primary.awaitStandby(t, standby)
	primary.crash(t)
	answered()
	standby.promote(t)
	wantStandby(t, r, "0")
	testdb.Eventually(t, "a comment is accepted by the new primary", func() bool {
		return p.send(t, r.URL, PostsPath, "third", remark("third"), false).succeeded()
	})
	testdb.Eventually(t, "it is on the page", func() bool { return strings.Contains(newestOn(t, r), remarkText("third")) })
}

// TestHistoryOnAStandby: an auditor reads pages and a stream from the standby, and the newest events from the primary,
// which records every read. While the standby is down, all comes from the primary.
func TestHistoryOnAStandby(t *testing.T) {
	t.Parallel()
	primary, standby := startPair(t)
	r := servePatiently(t, primary.url(), "--read-database-url", standby.url(), "--read-max-lag", patience.String())
	p, auditor := newPartner(t, primary.url()), r.NewAuditor(t)
	const comments = 1300
	for i := range comments {
		if a := p.send(t, r.URL, PostsPath, fmt.Sprint("key-", i), remark(fmt.Sprint(i)), false); !a.succeeded() {
			t.Fatalf("a comment is answered with %d %v\n%s", a.status, a.err, a.body)
		}
	}
	primary.awaitStandby(t, standby)
	wantStandby(t, r, "1")
	want, recorded := len(settledLog(t, primary.url())), 0
	read := func(answers string) {
		t.Helper()
		reads := 1
		before := r.standbyAnswers(t)
		var page struct {
			Items      []jsontext.Value
			NextCursor *string
		}
		found, path := 0, "/api/events?limit=100"
		for next := path; ; next = path + "&cursor=" + url.QueryEscape(*page.NextCursor) {
			page.NextCursor = nil
			auditor.Get(t, next).WantJSON(t, http.StatusOK, &page)
			found += len(page.Items)
			if page.NextCursor == nil {
				break
			}
			reads++
		}
		stream := r.Send(t, Request{
			Method: http.MethodGet, Path: "/api/events", Bearer: auditor.APIKey,
			Header: http.Header{"Accept": {"application/x-ndjson"}},
		})
		lines := strings.Count(string(stream.Body), "\n")
		if stream.Status != http.StatusOK || lines != want || found != want {
			t.Errorf("%d %d events in the stream, %d in pages; want %d", stream.Status, lines, found, want)
		}
		if n := r.standbyAnswers(t) - before; fmt.Sprint(n > reads/2) != answers {
			t.Errorf("the standby answered %d of %d reads", n, reads)
		}
		recorded += 2 * want
		testdb.Eventually(t, "the access log of the primary has all rows", func() bool {
			return value[int](t, primary.url(), `SELECT sum(rows_returned) FROM access_log`) == recorded
		})
	}
	read("true")
	standby.crash(t)
	wantStandby(t, r, "0")
	read("false")
	standby.start(t)
	wantStandby(t, r, "1")
	read("true")
}

// TestExportFromAStandby: an export has all that was committed before, and comes from the standby if that has it in
// time.
func TestExportFromAStandby(t *testing.T) {
	t.Parallel()
	primary, standby := startPair(t)
	execute(t, primary.url(), `CREATE VIEW analytics.place AS SELECT pg_is_in_recovery() AS standby`)
	integrations := 0
	export := func(view string, maxLag time.Duration) Output {
		t.Helper()
		return MustCLI(t, primary.url(), "analytics", "export", "--view", view, "--read-database-url", standby.url(),
			"--read-max-lag", maxLag.String())
	}
	wantExport := func(standby string) {
		t.Helper()
		maxLag := patience // a busy standby has it in time
		if standby == "f" {
			maxLag = 2 * time.Second
		}
		newPartner(t, primary.url())
		integrations++
		if out := export("integrations", maxLag); strings.Count(out.Stdout, "\n") != 1+integrations {
			t.Errorf("%d integrations, and the export has\n%s", integrations, out.Stdout)
		}
		out := export("place", maxLag)
		if out.Stdout != "standby\n"+standby+"\n" {
			t.Errorf("from a standby: %s, want %s", out.Stdout, standby)
		}
		if said := strings.Contains(out.Stderr, "reading from the database itself"); said != (standby == "f") {
			t.Errorf("it says\n%s", out.Stderr)
		}
	}
	wantExport("t")
	execute(t, standby.url(), `SELECT pg_wal_replay_pause()`)
	wantExport("f")
	execute(t, standby.url(), `SELECT pg_wal_replay_resume()`)
	primary.awaitStandby(t, standby)
	wantExport("t")
	standby.crash(t)
	wantExport("f")
}

// standbyAnswers returns how many reads standbys have answered.
func (s *Service) standbyAnswers(t *testing.T) (total int) {
	t.Helper()
	for line := range strings.Lines(s.metrics(t)) {
		if strings.HasPrefix(line, "novelgate_standby_answers_total{") {
			var n int
			testdb.Must(fmt.Sscan(line[strings.LastIndex(line, " "):], &n))(t)
			total += n
		}
	}
	return total
}

// TestStandbyAhead: one of two standbys is promoted without the end of the WAL, which the other one has. Readers do not
// use the other one, which is ahead of the new primary, and never see what was lost.
func TestStandbyAhead(t *testing.T) {
	t.Parallel()
	t.Run("by a comment", func(t *testing.T) { t.Parallel(); standbyAhead(t, true) })
	t.Run("by WAL without comments", func(t *testing.T) { t.Parallel(); standbyAhead(t, false) })
}

func standbyAhead(t *testing.T, comment bool) {
	t.Helper()
	primary, promoted := startPair(t)
	ahead := startStandby(t, primary)
	both := primaryOf(t, primary, promoted)
	before := servePatiently(t, both, "--pause-projections")
	p := newPartner(t, primary.url())
	kept := remarkOn(t, p, before, "kept")
	primary.awaitStandby(t, promoted)
	promoted.cut(t)
	lost := remarkText("lost")
	if comment {
		remarkOn(t, p, before, "lost")
	} else {
		execute(t, primary.url(), `CREATE TABLE ballast AS SELECT repeat('x', 500) FROM generate_series(1, 100000)`)
	}
	primary.awaitStandby(t, ahead)
	before.kill()
	primary.crash(t)
	promoted.promote(t)

	r := servePatiently(t, both, "--read-database-url", ahead.url(), "--read-max-lag", patience.String())
	testdb.Eventually(t, "the service says why it does not use the standby", func() bool {
		return strings.Contains(r.stderr.String(), "has not followed the present one yet")
	})
	more := remarkOn(t, p, r, "more")
	testdb.Eventually(t, "the comment is on the page", func() bool { return strings.Contains(newestOn(t, r), more) })
	page := r.Send(t, Request{Method: http.MethodGet, Path: "/api/novels/standby/discussion"})
	if text := string(page.Body); strings.Contains(text, lost) || !strings.Contains(text, kept) {
		t.Errorf("%d\n%s", page.Status, text)
	}
	if strings.Contains(r.stderr.String(), "readers use a standby") {
		t.Error("the standby was used")
	}
}

// startPair starts a primary with an empty log and a standby of it.
func startPair(t *testing.T) (primary, standby *server) {
	t.Helper()
	primary = startServer(t, nil)
	if out := RunCLI(t, primary.url(), "migrate"); out.Code != 0 {
		t.Fatal(out.Stderr)
	}
	return primary, startStandby(t, primary)
}

// wantStandby waits until the metric says 1, that the standby is used, or 0.
func wantStandby(t testing.TB, r *Service, used string) {
	t.Helper()
	testdb.Eventually(t, "novelgate_standby_used is "+used, func() bool {
		for line := range strings.Lines(r.metrics(t)) {
			if strings.HasPrefix(line, "novelgate_standby_used{") {
				return strings.HasSuffix(line, "} "+used+"\n")
			}
		}
		return false
	})
}

// newestOn reads the page with the newest comment.
func newestOn(t *testing.T, r *Service) string {
	t.Helper()
	response := r.Send(t, Request{Method: http.MethodGet, Path: "/api/novels/standby/discussion?sort=newest&limit=1"})
	if response.Status != http.StatusOK {
		t.Errorf("a reader gets %d\n%s", response.Status, response.Body)
	}
	return string(response.Body)
}

// remark is the body of a comment that is written now.
func remark(key string) []byte {
	body := comment("Standby", "reader", key)
	body["content"] = remarkText(key)
	delete(body, "timestamp")
	return encode(body)
}

func remarkText(key string) string { return fmt.Sprint("This is the ", key, " comment.") }

// remarkOn imports a comment, follows its link at once, and returns its text.
func remarkOn(t *testing.T, p *Partner, r *Service, key string) string {
	t.Helper()
	text := remarkText(key)
	sent := p.send(t, r.URL, PostsPath, key, remark(key), false)
	if sent.status != http.StatusCreated {
		t.Fatalf("a comment is answered with %d %v\n%s", sent.status, sent.err, sent.body)
	}
	link := testdb.Must(url.Parse(sent.header.Get("Location")))(t)
	page := r.Send(t, Request{Method: http.MethodGet, Path: link.RequestURI()})
	if page.Status != http.StatusOK || !strings.Contains(string(page.Body), text) {
		t.Errorf("the link of the comment is answered with %d\n%s", page.Status, page.Body)
	}
	return text
}
