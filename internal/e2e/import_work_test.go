package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"novelgate/internal/testdb"
)

func TestReplyOfAnImportWaitsForALiveParent(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewImporter(t)
	title := Unique("Waiting")
	i := p.OpenImport(t)
	i.Put(t, PostLine(t, "reply", Comment(title).With(Fields{"parent_uuid": "parent"})))
	i.await(t, "the reply waits", func(now BulkImport) bool { return now.Waiting == 1 })
	parent := p.Import(t, "parent", Comment(title)).WantPost(t, 201)
	i.await(t, "the reply is stored", func(now BulkImport) bool { return now.Created == 1 && now.Waiting == 0 })
	if r := i.Results(t, "")[0]; r.ParentPostID != parent.PostID || r.Warnings != nil {
		t.Errorf("reply %+v, parent %+v", r, parent)
	}
	if ended := i.Finish(t); ended.ParentMissing != 0 {
		t.Errorf("import %+v", ended)
	}
}

// TestResultsWithAWarning lists outcomes by their warnings. Only a missing parent counts as such.
func TestResultsWithAWarning(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewImporter(t)
	title := Unique("Warned")
	i := p.OpenImport(t)
	i.Put(t, PostLine(t, "plain", Comment(title))+
		PostLine(t, "misspelled", Comment(title).With(Fields{"parentUuid": "plain"}))+
		PostLine(t, "orphan", Comment(title).With(Fields{"parent_uuid": "nothing"}))+
		PostLine(t, "both", Comment(title).With(Fields{"parent_uuid": "nothing", "parentUuid": "plain"})))
	if ended := i.Finish(t); ended.Created != 4 || ended.ParentMissing != 2 {
		t.Errorf("import %+v", ended)
	}
	for query, want := range map[string][]string{
		"": {"plain", "misspelled", "orphan", "both"}, "&warning=unknown_member": {"misspelled", "both"},
		"&warning=parent_not_found": {"orphan", "both"}, "&warning=parent_not_found&status=failed": nil,
	} {
		var got []string
		for _, r := range i.Results(t, query) {
			got = append(got, r.IdempotencyKey)
			misspelled := r.IdempotencyKey == "misspelled" || r.IdempotencyKey == "both"
			if misspelled != slices.Equal(r.UnknownMembers, []string{"parentUuid"}) {
				t.Errorf("%s has the unknown members %q", r.IdempotencyKey, r.UnknownMembers)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", query, diff)
		}
	}
	i.read(t, "/results?warning=missing").WantProblem(t, http.StatusBadRequest, "invalid_request")
}

// TestRepliesOfAnImportWithoutParentAreTopLevel: an unknown parent, a parent in another discussion, a reply to itself,
// a cycle with a reply to it, a parent that fails.
func TestRepliesOfAnImportWithoutParentAreTopLevel(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewImporter(t)
	title, other := Unique("Orphans"), Unique("Other")
	lines := []struct {
		key, novel, parent string
		wants              string // the parent
	}{
		{"orphan", title, "nothing", ""},
		{"child", title, "orphan", "orphan"},
		{"elsewhere", other, "orphan", ""},
		{"self", title, "self", ""},
		{"circle-reply", title, "circle-1", "circle-1"},
		{"circle-2", title, "circle-1", ""},
		{"circle-1", title, "circle-3", "circle-3"},
		{"circle-3", title, "circle-2", "circle-2"},
		{"empty", title, "", ""},
		{"no key", title, "a b", ""},
		{"of-failed", title, "failed", ""},
	}
	i := p.OpenImport(t)
	var text strings.Builder
	for _, l := range lines {
		fields := Comment(l.novel).With(Fields{"parent_uuid": l.parent})
		text.WriteString(PostLine(t, strings.ReplaceAll(l.key, " ", "-"), fields))
	}
	text.WriteString(PostLine(t, "failed", Comment(title).With(Fields{"content": ""})))
	i.Put(t, text.String())
	ended := i.Finish(t)
	results, ids := i.Results(t, ""), map[string]string{}
	for _, r := range results {
		ids[r.IdempotencyKey] = r.PostID
	}
	missing := 0
	for n, l := range lines {
		r := results[n]
		if r.Status != "created" || r.ParentPostID != ids[l.wants] || (r.Warnings == nil) != (l.wants != "") {
			t.Errorf("%s answers %q with %v, want %q: %+v", l.key, r.ParentPostID, r.Warnings, ids[l.wants], r)
		}
		if l.wants == "" {
			missing++
		}
	}
	if ended.ParentMissing != missing || ended.Failed != 1 {
		t.Errorf("import %+v, want %d without parent", ended, missing)
	}
}

func TestImportOverlapsWithLiveTraffic(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewImporter(t)
	title := Unique("Overlap")
	live := p.Import(t, "live", Comment(title)).WantPost(t, 201)
	novel := p.Upsert(t, "novel", Fields{"novel": title, "author": "Live"}).WantNovel(t, 200)
	i := p.OpenImport(t)
	i.Put(t, PostLine(t, "live", Comment(title))+PostLine(t, "live", Comment(title).With(Fields{"content": "Other."}))+
		NovelLine(t, "novel", Fields{"novel": title, "author": "Late"})+PostLine(t, "new", Comment(title)))
	ended := i.Finish(t)
	if ended.Replayed != 3 || ended.Created != 1 {
		t.Errorf("import %+v", ended)
	}
	results := i.Results(t, "")
	if results[0].PostID != live.PostID || results[0].Mismatch || !results[1].Mismatch ||
		results[2].NovelID != novel.NovelID || !results[2].Mismatch {
		t.Errorf("results %+v", results)
	}
	p.Import(t, "new", Comment(title)).WantPost(t, 200)
}

// TestImportKeepsTheOrderOfNovels: an upsert behind another one wins, wherever the chunks are cut. Each line uses one
// permit, although each is executed alone.
func TestImportKeepsTheOrderOfNovels(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	const lines = 1_200 // more than a chunk
	p := Shared(t).NewImporter(t, Fields{"linesPerMinute": lines})
	title := Unique("Ordered")
	var text strings.Builder
	for n := range lines {
		text.WriteString(NovelLine(t, fmt.Sprint("n", n), Fields{"novel": title, "author": fmt.Sprint("Author ", n)}))
	}
	i := p.OpenImport(t)
	i.Put(t, text.String())
	if ended := i.Finish(t); ended.Created != 1 || ended.Updated != lines-1 {
		t.Errorf("import %+v", ended)
	}
	if got := p.Service.Novel(t, title).Author; got != fmt.Sprint("Author ", lines-1) {
		t.Errorf("author %q", got)
	}
}

// TestRepliesBeforeTheirParents use one permit per line, although they are executed twice, and the import does not
// pause while there are permits.
func TestRepliesBeforeTheirParents(t *testing.T) {
	t.Parallel()
	databaseURL := testdb.New(t)
	const n, limit = 400, 430
	p := Start(t, databaseURL).NewImporter(t, Fields{"linesPerMinute": limit})
	lines, _ := thread(t, Unique("Backwards"), n)
	slices.Reverse(lines)
	i := p.OpenImport(t)
	i.Put(t, strings.Join(lines, ""))
	if ended := i.Finish(t); ended.Created != n || ended.ParentMissing != 0 {
		t.Errorf("import %+v", ended)
	}
	testdb.Eventually(t, "unused permits are returned", func() bool {
		return value[int](t, databaseURL, `SELECT coalesce(sum(c), 0) FROM rate_limits, unnest(charged) AS c
			WHERE operation = 'lines'`) <= n
	})
	if rested := value[bool](t, databaseURL, `SELECT resume_at > opened_at FROM imports`); rested {
		t.Error("the import rested")
	}
}

func TestCancelledImportStops(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewImporter(t, Fields{"linesPerMinute": 10})
	title := Unique("Cancelled")
	var text strings.Builder
	for n := range 50 {
		text.WriteString(PostLine(t, fmt.Sprint("c", n), Comment(title)))
	}
	i := p.OpenImport(t)
	i.Put(t, text.String())
	// It first stops at the limit of lines.
	i.await(t, "the limit is reached", func(now BulkImport) bool { return now.Created == 10 })
	cancel := i.request(http.MethodDelete, "")
	for range 2 {
		var cancelled BulkImport
		p.Ask(t, cancel).WantJSON(t, http.StatusOK, &cancelled)
		if cancelled.State != "cancelled" || cancelled.Created != 10 || cancelled.Pending != 40 {
			t.Errorf("import %+v", cancelled)
		}
	}
	p.Ask(t, i.Part(50, "x")).WantProblem(t, http.StatusConflict, "import_closed")
	p.Ask(t, i.request(http.MethodPost, "/complete")).WantProblem(t, http.StatusConflict, "import_closed")
	if results := i.Results(t, ""); len(results) != 10 {
		t.Errorf("%d outcomes", len(results))
	}
}

// TestErasureReachesTheSpool erases an author whose lines wait, have failed or are not processed yet.
func TestErasureReachesTheSpool(t *testing.T) {
	t.Parallel()
	databaseURL := testdb.New(t)
	s := Start(t, databaseURL)
	p := s.NewImporter(t, Fields{"linesPerMinute": 4})
	title := Unique("Erased")
	const word = "swordfish-of-the-erased-author"
	by := func(author, key string, more Fields) string {
		return PostLine(t, key, Comment(title).With(Fields{"uuid": author, "content": word + author}).With(more))
	}
	i := p.OpenImport(t)
	i.Put(t, by("gone", "stored", nil)+by("gone", "waits", Fields{"parent_uuid": "later"})+
		by("gone", "fails", Fields{"username": word + strings.Repeat("x", 60)})+
		strings.Replace(by("gone", "broken", nil), `"posts"}`, `"posts"`, 1)+by("stays", "first", nil)+
		by("gone", "pending", nil)+by("stays", "second", nil))
	i.await(t, "the limit is reached", func(now BulkImport) bool { return now.Created == 2 && now.Waiting == 1 })
	var erased struct{ Comments, Lines int }
	erase := []string{"author", "erase", p.IntegrationID, "gone", "--reason", "test"}
	s.runJSON(t, &erased, erase...)
	if erased.Comments != 1 || erased.Lines != 4 {
		t.Errorf("erased %+v, want 1 comment and 4 lines", erased)
	}
	testdb.Eventually(t, "the tables are vacuumed", func() bool { // once all projections have applied the erasure
		return s.CLI(t, append(erase, "--vacuum")...).Code == 0
	})
	if held := testdb.FindWords(t, databaseURL, word+"gone"); len(held) > 0 {
		t.Errorf("the author's words are in %v", held)
	}
	if spool := spooled(t, databaseURL); strings.Contains(spool, word+"gone") || !strings.Contains(spool, word+"stays") {
		t.Errorf("the spool has\n%s", spool)
	}
	s.Integration(t, "limit", p.IntegrationID, "--lines-per-minute", "1000")
	execute(t, databaseURL, `UPDATE imports SET resume_at = '-infinity'`)
	ended := i.Finish(t)
	if ended.Created != 3 || ended.Failed != 4 {
		t.Errorf("import %+v", ended)
	}
	want := []string{"", "gone", "gone", "gone", "", "gone", ""}
	var got []string
	for _, r := range i.Results(t, "") {
		code := ""
		if r.Problem != nil {
			code = r.Problem.Code
		}
		got = append(got, code)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("codes (-want +got)\n%s", diff)
	}
	if lines := i.FailedLines(t); lines != "" {
		t.Errorf("the failed lines still have %s", lines)
	}
}

func TestLinesAreDeletedSomeTimeAfterTheEnd(t *testing.T) {
	t.Parallel()
	databaseURL := testdb.New(t)
	s := Start(t, databaseURL)
	p := s.NewImporter(t)
	const word = "swordfish-of-a-failed-line"
	ended, idle := p.OpenImport(t), p.OpenImport(t)
	ended.Put(t, PostLine(t, "bad", Fields{"content": word}))
	idle.Put(t, PostLine(t, "waits", Comment(Unique("Idle")).With(Fields{"parent_uuid": "nothing", "content": word})))
	ended.Finish(t)
	if spool := spooled(t, databaseURL); !strings.Contains(spool, word) {
		t.Errorf("the spool has\n%s", spool)
	}
	Start(t, databaseURL, "--import-retention", "1s")
	idle.await(t, "an idle import is abandoned", func(now BulkImport) bool { return now.State == "failed" })
	testdb.Eventually(t, "lines are deleted", func() bool { return spooled(t, databaseURL) == "" })
	for _, path := range []string{"/results", "/failed"} {
		var listed Response
		testdb.Eventually(t, path+" is refused", func() bool { // soon after the lines are deleted
			listed = ended.read(t, path)
			return listed.Status != http.StatusOK
		})
		listed.WantProblem(t, http.StatusGone, "gone")
	}
	if shown := ended.Show(t); shown.Failed != 1 || shown.State != "completed" {
		t.Errorf("import %+v", shown)
	}
}

// spooled returns all lines and outcomes in the database.
func spooled(t testing.TB, databaseURL string) string {
	t.Helper()
	reader, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var plain []byte
	for _, packed := range value[[][]byte](t, databaseURL, `SELECT coalesce(array_agg(b), '{}') FROM (
		SELECT body FROM import_chunks UNION ALL SELECT results FROM import_chunks) AS c (b)`) {
		if plain, err = reader.DecodeAll(packed, plain); err != nil {
			t.Fatal(err)
		}
	}
	return string(plain)
}

// storedComments lists comments in the tables, without values that differ between databases.
const storedComments = `SELECT concat_ws('|', e.event_id, e.personal, n.title, p.written_at, p.depth, p.chapter_number,
	(SELECT f.event_id FROM events f WHERE f.stream_id = p.parent_post_id AND f.stream_version = 1),
	(SELECT r.event_id FROM events r WHERE r.stream_id = p.root_post_id AND r.stream_version = 1))
FROM posts p JOIN events e ON e.stream_id = p.post_id AND e.stream_version = 1 JOIN novels n ON n.novel_id = p.novel_id ORDER BY 1`

// TestImportSurvivesKills kills the service at random moments while it processes an import that two replicas share, and
// compares what is left with the same comments sent live. NOVELGATE_TEST_IMPORT_LINES sets the number of comments.
func TestImportSurvivesKills(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	n := scaled(t, "NOVELGATE_TEST_IMPORT_LINES", 12_000)
	kills := min(10, max(4, n/100_000))
	databaseURL, liveURL := testdb.New(t), testdb.New(t)
	title := Unique("Killed")
	lines, parents := thread(t, title, n)
	for k, line := range lines {
		written := fmt.Sprintf(`"timestamp":"2020-01-01T00:%02d:%02dZ","uuid"`, k/60%60, k%60)
		lines[k] = strings.Replace(line, `"uuid"`, written, 1)
	}

	began := time.Now()
	live := Start(t, liveURL).NewImporter(t, Fields{"postsPerMinute": 100_000_000})
	sendLive(t, live, lines, parents)
	t.Logf("%d comments sent live in %v", n, time.Since(began))

	replicas := []*Service{Start(t, databaseURL), Start(t, databaseURL)}
	p := replicas[0].NewImporter(t)
	i := p.OpenImport(t)
	began = time.Now()
	spoiled, wants := spoil(t, lines)
	for part := range slices.Chunk(spoiled, 4_000) {
		i.Put(t, strings.Join(part, ""))
	}
	i.Complete(t)
	for round := range kills {
		done := round*n/(2*kills) + rand.IntN(n/(2*kills))
		i.await(t, "lines are processed", func(now BulkImport) bool {
			return now.Created+now.Waiting > done || now.State == "completed"
		})
		victim := round % 2
		replicas[victim].kill()
		replicas[victim] = Start(t, databaseURL)
		p.Service = replicas[victim]
	}
	for step := range 10 { // an end may be further away than a test waits for
		i.await(t, "lines are processed", func(now BulkImport) bool { return now.Created > n*step/10 })
	}
	ended := i.Finish(t)
	t.Logf("%d lines imported with %d kills in %v; most memory %v", len(spoiled), kills, time.Since(began),
		[]string{replicas[0].mostMemory(t), replicas[1].mostMemory(t)})
	if ended.Created != n || ended.Failed != len(spoiled)-n || ended.ParentMissing != 0 {
		t.Errorf("import %+v", ended)
	}
	results := i.Results(t, "")
	if len(results) != len(spoiled) {
		t.Errorf("%d outcomes, want %d", len(results), len(spoiled))
	}
	for k, r := range results {
		if r.Line != k+1 || r.Status != wants[k] {
			t.Fatalf("outcome %d is %+v, want %s", k+1, r, wants[k])
		}
	}
	awaitAnnounced(t, databaseURL)
	recorded := settledLog(t, databaseURL)
	awaitProjections(t, databaseURL, recorded)
	wantReference(t, databaseURL, recorded, "posts")
	awaitProjections(t, liveURL, settledLog(t, liveURL))
	want, got := rowsOf(t, liveURL, storedComments), rowsOf(t, databaseURL, storedComments)
	if diff := without(want, got); len(want) != n || len(got) != n || len(diff) > 0 {
		t.Errorf("%d comments live, %d imported; missing: %.5v", len(want), len(got), diff)
	}
}

// awaitAnnounced waits for the event of a completed import, the only one in its database.
func awaitAnnounced(t testing.TB, databaseURL string) {
	t.Helper()
	testdb.Eventually(t, "the end of the import is in the log", func() bool {
		return value[int](t, databaseURL, `SELECT count(*) FROM events WHERE event_type = 'integration.import_completed.v1'`) == 1
	})
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

// TestOutcomesThatWereNotSavedComeAgain sets the spool back to before the execution, as a kill between commit and save
// does. The lines are executed again with the same outcomes.
func TestOutcomesThatWereNotSavedComeAgain(t *testing.T) {
	t.Parallel()
	databaseURL := testdb.New(t)
	p := Start(t, databaseURL).NewImporter(t, Fields{"linesPerMinute": 0})
	title := Unique("Again")
	i := p.OpenImport(t)
	i.Put(t, NovelLine(t, "created", Fields{"novel": title})+
		NovelLine(t, "updated", Fields{"novel": title, "author": "A"})+
		PostLine(t, "reply", Comment(title).With(Fields{"parent_uuid": "parent"}))+PostLine(t, "parent", Comment(title))+
		PostLine(t, "parent", Comment(title).With(Fields{"content": "Another."}))+PostLine(t, "bad", Comment(""))+
		PostLine(t, "orphan", Comment(title).With(Fields{"parent_uuid": "nothing"})))
	i.Complete(t)
	execute(t, databaseURL, `CREATE TABLE kept_imports AS SELECT * FROM imports`,
		`CREATE TABLE kept_chunks AS SELECT * FROM import_chunks`)
	p.Service.Integration(t, "limit", p.IntegrationID, "--lines-per-minute", "100000")
	execute(t, databaseURL, `UPDATE imports SET resume_at = '-infinity'`,
		`UPDATE kept_imports SET resume_at = '-infinity'`)
	before, want := i.Finish(t), i.Results(t, "")
	awaitAnnounced(t, databaseURL)
	log := len(settledLog(t, databaseURL))

	execute(t, databaseURL, `BEGIN; DELETE FROM import_waiting; DELETE FROM import_parts; DELETE FROM import_chunks;
		DELETE FROM imports;
		INSERT INTO imports SELECT * FROM kept_imports; INSERT INTO import_chunks SELECT * FROM kept_chunks;
		UPDATE import_chunks SET holder = NULL; COMMIT`)
	after, got := i.Finish(t), i.Results(t, "")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcomes (-before +after)\n%s", diff)
	}
	if after != before || before.Created != 4 || before.Updated != 1 || before.Replayed != 1 || before.Failed != 1 {
		t.Errorf("import %+v before, %+v after", before, after)
	}
	if now := len(settledLog(t, databaseURL)); now != log {
		t.Errorf("%d events, want %d", now, log)
	}
}

// TestLeaseOfADeadWorkerExpires: a leased chunk is executed only after the lease has expired.
func TestLeaseOfADeadWorkerExpires(t *testing.T) {
	t.Parallel()
	databaseURL := testdb.New(t)
	p := Start(t, databaseURL).NewImporter(t, Fields{"linesPerMinute": 0})
	i, free := p.OpenImport(t), p.OpenImport(t)
	title := Unique("Leased")
	i.Put(t, PostLine(t, "held", Comment(title)))
	free.Put(t, PostLine(t, "free", Comment(title)))
	execute(t, databaseURL, fmt.Sprintf(`UPDATE import_chunks
		SET holder = gen_random_uuid(), leased_until = now() + interval '1 hour' WHERE import_id = '%s'`, i.ImportID))
	p.Service.Integration(t, "limit", p.IntegrationID, "--lines-per-minute", "100000")
	execute(t, databaseURL, `UPDATE imports SET resume_at = '-infinity'`)
	free.Finish(t)
	if now := i.Show(t); now.Created != 0 {
		t.Errorf("a leased line was executed: %+v", now)
	}
	execute(t, databaseURL, `UPDATE import_chunks SET leased_until = now() - interval '1 second' WHERE holder IS NOT NULL`)
	if ended := i.Finish(t); ended.Created != 1 {
		t.Errorf("import %+v", ended)
	}
}

// TestDisabledImportRests: an import pauses until the capability is enabled again. A line of a disabled operation
// fails.
func TestDisabledImportRests(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	p := s.NewImporter(t, Fields{"capabilities": []string{"posts", "import"}})
	title := Unique("Resting")
	s.Moderate(t, "publish", title)
	i := p.OpenImport(t)
	for _, change := range []struct {
		flag   string
		status int
	}{{"--disable", http.StatusForbidden}, {"--enable", http.StatusOK}} {
		s.Integration(t, "capability", p.IntegrationID, change.flag, "import")
		testdb.Eventually(t, change.flag+" takes effect", func() bool {
			return s.Send(t, i.request(http.MethodGet, "")).Status == change.status
		})
	}
	i.Put(t, NovelLine(t, "n", Fields{"novel": title})+PostLine(t, "c", Comment(title)))
	ended := i.Finish(t)
	if results := i.Results(t, "&status=failed"); ended.Created != 1 || len(results) != 1 ||
		results[0].Problem.Code != "capability_disabled" {
		t.Errorf("import %+v, failed %+v", ended, results)
	}
}
