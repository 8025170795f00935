package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

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
	const n, limit = 400, 400
	p := Start(t, databaseURL).NewImporter(t, Fields{"linesPerMinute": limit})
	lines, _ := thread(t, Unique("Backwards"), n)
	slices.Reverse(lines)
	i := p.OpenImport(t)
	i.Put(t, strings.Join(lines, ""))
	if ended := i.Finish(t); ended.Created != n || ended.ParentMissing != 0 {
		t.Errorf("import %+v", ended)
	}
	testdb.Eventually(t, "unused permits are returned", func() bool {
		return value[int](t, databaseURL, `SELECT coalesce(sum(permits), 0) FROM rate_limits WHERE operation = 'lines'`) <= n
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

// TestImportOutlivesItsKey: the lines of an import are executed although its API key is revoked. Another one of the
// integration completes it.
func TestImportOutlivesItsKey(t *testing.T) {
	t.Parallel()
	databaseURL := testdb.New(t)
	s := Start(t, databaseURL)
	p := s.NewImporter(t, Fields{"linesPerMinute": 1})
	title := Unique("Outlived")
	i := p.OpenImport(t)
	i.Put(t, PostLine(t, "first", Comment(title))+PostLine(t, "second", Comment(title)))
	i.await(t, "the limit is reached", func(now BulkImport) bool { return now.Created == 1 })
	s.RevokeKey(t, p.KeyID)
	p.APIKey = s.IssueKey(t, p.IntegrationID).APIKey
	s.Integration(t, "limit", p.IntegrationID, "--lines-per-minute", "1000")
	execute(t, databaseURL, `UPDATE imports SET resume_at = '-infinity'`)
	if ended := i.Finish(t); ended.Created != 2 {
		t.Errorf("import %+v", ended)
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
