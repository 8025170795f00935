package e2e_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/events/relay/relaytest"
	"novelgate/internal/pgserver"
	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// Planted words about one author, and other words.
const (
	plantedUUID    = "planted-uuid-7"
	plantedName    = "PlantedName"
	plantedWords   = "PlantedWords of the first, "
	plantedMember  = "planted-member"
	neighboursWord = "NeighboursWords"
)

// TestErasedForGood: after an erasure, no table, bundle or rebuild has the author's text. Pages keep the place of the
// comments. Histories exported before and after both verify.
func TestErasedForGood(t *testing.T) {
	t.Parallel()
	s := Start(t, testdb.New(t))
	ada, p, title := s.NewStaff(t), s.NewPartner(t), Unique("Erased")
	written := Comment(title).With(Fields{"uuid": plantedUUID, "username": plantedName})
	var posts []string
	for _, number := range []string{"one", "two"} {
		posts = append(posts,
			p.Import(t, Key(), written.With(Fields{"content": plantedWords + number})).WantPost(t, 201).PostID)
	}
	p.Import(t, Key(), Comment(title).With(Fields{"content": neighboursWord})).WantPost(t, 201)
	s.MustCLI(t, "author", "link", p.Name, plantedUUID, plantedMember)
	page := "/novels/" + strings.ReplaceAll(strings.ToLower(title), " ", "-") + "/discussion"
	shows := func(words string, times int) bool {
		status, shown := Get(t, s.URL+page)
		return status == 200 && strings.Count(shown, words) == times
	}
	testdb.Eventually(t, "the page shows all comments", func() bool {
		return shows(plantedWords, len(posts)) && shows(neighboursWord, 1) && !shows(plantedMember, 0)
	})
	personal := []string{plantedUUID, plantedName, plantedWords, plantedMember}
	before, after := filepath.Join(t.TempDir(), "before"), filepath.Join(t.TempDir(), "after")
	awaitSigned(t, s.DatabaseURL)
	s.MustCLI(t, "events", "export", before)
	testdb.Eventually(t, "the search finds what is planted", func() bool {
		return len(testdb.FindWords(t, s.DatabaseURL, personal...)) >= 4
	})

	var erased struct{ Comments, Decisions int }
	ada.Delete(t, p.authorPath(plantedUUID)+"?reason=asked").WantJSON(t, 200, &erased)
	if erased.Comments != len(posts) || erased.Decisions != 1 {
		t.Errorf("erased %+v", erased)
	}
	wantErased := func(when string) {
		t.Helper()
		testdb.Eventually(t, "the page shows, "+when+", that the comments are erased", func() bool {
			return shows("This comment was erased.", len(posts)) && shows(neighboursWord, 1) && shows(plantedWords, 0) &&
				shows(plantedName, 0) && shows(plantedMember, 0)
		})
		for _, id := range posts {
			if status, shown := Get(t, s.URL+page+"?post="+id); status != 200 || !strings.Contains(shown, `id="post-`+id+`"`) {
				t.Errorf("%s: the address of a comment answers %d", when, status)
			}
		}
		testdb.Eventually(t, "no table has, "+when+", what was erased", func() bool { // once all projections have applied it
			return len(testdb.FindWords(t, s.DatabaseURL, personal...)) == 0
		})
	}
	wantErased("after the erasure")
	for _, projection := range append(projections.All(), projections.Inline()...) {
		s.MustCLI(t, "projection", "rebuild", projection.Name())
	}
	wantErased("after a rebuild of everything")
	if held := testdb.FindWords(t, s.DatabaseURL, neighboursWord); len(held) == 0 {
		t.Error("what a neighbour wrote is gone, too")
	}

	awaitSigned(t, s.DatabaseURL)
	s.MustCLI(t, "events", "export", after)
	for bundle, want := range map[string]bool{before: true, after: false} {
		if out := s.MustCLI(t, "events", "verify", bundle); strings.Contains(out.Stdout, "WITHOUT A RECORD") {
			t.Errorf("verify the bundle from %s the erasure: %s", filepath.Base(bundle), out.Stdout)
		}
		if held := relaytest.Holding(t, bundle, plantedWords); (len(held) > 0) != want {
			t.Errorf("what was written is in %v", held)
		}
	}
	s.MustCLI(t, "events", "verify", after, "--against", before)
}

// TestEraseBesideAnUnfinishedRebuild: the tables of an interrupted rebuild keep the text of an erased author. The
// command reports this, with the commands that remove it.
func TestEraseBesideAnUnfinishedRebuild(t *testing.T) {
	t.Parallel()
	s, p := writtenAndAnalysed(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	if _, err := rebuild.Run(ctx, rebuild.Config{
		Pool: testdb.Pool(t, s.DatabaseURL), Projection: projections.Posts{}, Logger: slog.New(slog.DiscardHandler),
		Progress: func(at rebuild.Progress) {
			if at.Done > 0 {
				interrupt()
			}
		},
	}); err == nil {
		t.Fatal("the rebuild was not interrupted")
	}
	out := s.MustCLI(t, "author", "erase", p.Name, plantedUUID, "--reason", "asked")
	if strings.Count(out.Stderr, "\n") != 1 || !strings.Contains(out.Stderr, "novelgate projection rebuild posts") ||
		!strings.Contains(out.Stderr, "novelgate projection discard posts") {
		t.Errorf("beside an unfinished rebuild: %+v", out)
	}
	if !slices.Contains(testdb.FindWords(t, s.DatabaseURL, plantedName), "posts_2.authors.display_name") {
		t.Error("the warning is wrong: nothing is kept")
	}
	s.MustCLI(t, "projection", "rebuild", "posts")
	testdb.Eventually(t, "nothing is kept any more",
		func() bool { return len(testdb.FindWords(t, s.DatabaseURL, plantedName)) == 0 })
	if out := s.MustCLI(t, "author", "erase", p.Name, plantedUUID, "--reason", "again"); out.Stderr != "" {
		t.Errorf("without an unfinished rebuild: %+v", out)
	}
}

// TestRewriteAfterErasure: --rewrite waits for the projections and older transactions, reports those that do not apply
// the erasure, and leaves nothing in tables and statistics.
func TestRewriteAfterErasure(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	s, p := writtenAndAnalysed(t, Fields{"uuid": "neighbour", "username": neighboursWord},
		Fields{"uuid": "another", "username": "Another"})
	tables := func() []string {
		return testdb.FindWords(t, s.DatabaseURL, plantedUUID, plantedName, plantedWords)
	}
	want := []string{
		"public.authors.display_name", "public.authors.external_uuid", "public.events.personal",
		"statistics of public.authors.display_name", "statistics of public.authors.external_uuid",
	}
	if diff := cmp.Diff(want, tables()); diff != "" {
		t.Fatalf("before the erasure (-want +got)\n%s", diff)
	}
	erase := []string{"author", "erase", p.Name, plantedUUID, "--reason", "asked"}
	rewrite := append(erase, "--rewrite")
	execute(t, s.DatabaseURL,
		`UPDATE projections SET state = 'failed', error = 'cannot', failed_log_index = position WHERE name = 'posts'`)
	testdb.Eventually(t, "a projection that has failed is the only one that is behind", func() bool {
		refused := s.Refused(t, rewrite...)
		return strings.Contains(refused.Stderr,
			"the author is erased, but its data is still in the files of the database: these projections have not "+
				"applied the erasure yet: posts. ") &&
			strings.Contains(refused.Stderr, "--rewrite once `novelgate projection list`") &&
			strings.Contains(refused.Stderr, "`novelgate projection retry posts`")
	})
	if out := s.MustCLI(t, erase...); !strings.Contains(out.Stderr, "posts has stopped and shows what was erased") {
		t.Errorf("without --rewrite: %+v", out)
	}
	s.MustCLI(t, "projection", "retry", "posts")
	testdb.Eventually(t, "the repetition removes what is left", func() bool { return s.CLI(t, rewrite...).Code == 0 })
	if held := tables(); len(held) > 0 {
		t.Errorf("what was erased is still in %v", held)
	}
	if held := testdb.FindWords(t, s.DatabaseURL, neighboursWord); !slices.Contains(held,
		"statistics of public.authors.display_name") {
		t.Errorf("what a neighbour wrote is in %v only", held)
	}
}

// TestRewriteOfAnEmptyTable: ANALYZE keeps the statistics of a table that an erasure has emptied.
func TestRewriteOfAnEmptyTable(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	another := plantedUUID + "-another"
	s, p := writtenAndAnalysed(t, Fields{"uuid": another, "username": plantedName, "content": plantedWords})
	for _, erase := range [][]string{{another}, {plantedUUID, "--rewrite"}} {
		testdb.Eventually(t, erase[0]+" is erased", func() bool {
			return s.CLI(t, append([]string{"author", "erase", p.Name, "--reason", "asked"}, erase...)...).Code == 0
		})
	}
	if held := testdb.FindWords(t, s.DatabaseURL, plantedUUID, plantedName, plantedWords); len(held) > 0 {
		t.Errorf("after the erasure what was erased is still in %v", held)
	}
}

// TestFilesForget: after an erasure with --rewrite, only the WAL has what was erased. A transaction that can still read
// it is named instead.
func TestFilesForget(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	dir := dataDir(t)
	s := serveEmbedded(t, dir, patient...)
	p := demoPartner(t, s, dir)
	planted := Fields{"uuid": plantedUUID, "username": plantedName, "content": plantedWords}
	for range 50 {
		p.importUntilAccepted(t, Key(), Comment("Erased").With(planted))
		p.importUntilAccepted(t, Key(), Comment("Erased"))
	}
	MustCLI(t, "", "author", "link", "demo", plantedUUID, plantedMember, "--data-dir", dir)
	database := testdb.Must(pgserver.Find(t.Context(), dir))(t)
	awaitProjections(t, database)
	execute(t, database, `ANALYZE`)
	conn := testdb.Connect(t, database)
	testdb.Exec(t, conn, `BEGIN ISOLATION LEVEL REPEATABLE READ`)
	testdb.Exec(t, conn, `SELECT FROM events LIMIT 1`)
	erase := []string{"author", "erase", "demo", plantedUUID, "--reason", "asked", "--rewrite", "--data-dir", dir}
	out := RunCLI(t, "", erase...)
	if out.Code != 1 || !strings.Contains(out.Stderr, "older transactions may still read it: process ") {
		t.Errorf("beside an older transaction: %+v", out)
	}
	testdb.Exec(t, conn, `COMMIT`)
	if out := MustCLI(t, "", erase...); out.Stderr != "" {
		t.Errorf("standard error: %s", out.Stderr)
	}
	for _, word := range []string{plantedUUID, plantedName, plantedWords, plantedMember} {
		for _, file := range relaytest.Holding(t, dir, word) {
			if !strings.Contains(file, "/pg_wal/") {
				t.Errorf("%s is in %s", word, file)
			}
		}
	}
}

// writtenAndAnalysed starts a service with analysed comments of the planted author and of others.
func writtenAndAnalysed(t *testing.T, others ...Fields) (*Service, *Partner) {
	t.Helper()
	s := Start(t, testdb.New(t))
	p := s.NewPartner(t)
	planted := Fields{"uuid": plantedUUID, "username": plantedName, "content": plantedWords}
	for _, by := range append(others, planted) {
		for range 2 { // what is there more than once is a common value
			p.Import(t, Key(), Comment("Erased").With(by)).WantPost(t, 201)
		}
	}
	awaitProjections(t, s.DatabaseURL)
	execute(t, s.DatabaseURL, `ANALYZE`)
	return s, p
}
