package e2e_test

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// Planted words about one author, and other words.
const (
	plantedUUID    = "planted/uuid/7"
	plantedName    = "PlantedName"
	plantedWords   = "PlantedWords of the first, "
	plantedMember  = "planted-member"
	neighboursWord = "NeighboursWords"
)

// structuredData is the description of a page for programs.
var structuredData = regexp.MustCompile(`(?s)<script type="application/ld\+json">.*?</script>`)

// TestErasedForGood: after an erasure, no table, dump or rebuild has the author's text. Pages keep the place of the
// comments. Histories exported before and after both verify.
func TestErasedForGood(t *testing.T) {
	t.Parallel()
	s := Start(t, testdb.New(t))
	ada := s.NewStaff(t)
	p := s.NewPartner(t)
	title := Unique("Erased")
	comment := Comment(title).With(Fields{"uuid": plantedUUID, "username": plantedName})
	var posts []string
	for _, number := range []string{"one", "two", "three"} {
		posts = append(posts,
			p.Import(t, Key(), comment.With(Fields{"content": plantedWords + number})).WantPost(t, 201).PostID)
	}
	p.Import(t, Key(), Comment(title).With(Fields{"content": neighboursWord})).WantPost(t, 201)
	author := "/api/admin/integrations/" + p.IntegrationID + "/authors/" + strings.ReplaceAll(plantedUUID, "/", "%2F")
	ada.Put(t, author+"/member", Fields{"memberId": plantedMember}).WantJSON(t, 200, &struct{}{})
	page := "/novels/" + strings.ReplaceAll(strings.ToLower(title), " ", "-") + "/discussion"
	testdb.Eventually(t, "the page shows all comments", func() bool {
		status, shown := Get(t, s.URL+page)
		shown = structuredData.ReplaceAllString(shown, "") // which repeats the comments
		return status == 200 && strings.Count(shown, plantedWords) == len(posts) && strings.Contains(shown, neighboursWord) &&
			strings.Contains(shown, plantedMember)
	})

	personal := []string{plantedUUID, plantedName, plantedWords, plantedMember}
	dir := t.TempDir()
	before, after := filepath.Join(dir, "before"), filepath.Join(dir, "after")
	exportSigned(t, s, before)
	testdb.Eventually(t, "the search finds what is planted", func() bool {
		return len(testdb.FindWords(t, s.DatabaseURL, personal...)) >= 4
	})

	var erased struct{ Comments, Decisions int }
	ada.Delete(t, author+"?reason=asked").WantJSON(t, 200, &erased)
	if erased.Comments != len(posts) || erased.Decisions != 1 {
		t.Errorf("erased %+v", erased)
	}
	wantErased := func(when string) {
		t.Helper()
		testdb.Eventually(t, "the page shows, "+when+", that the comments are erased", func() bool {
			status, shown := Get(t, s.URL+page)
			return status == 200 && strings.Count(shown, "This comment was erased.") == len(posts) &&
				strings.Contains(shown, neighboursWord) &&
				!strings.Contains(shown, plantedWords) && !strings.Contains(shown, plantedName) &&
				!strings.Contains(shown, plantedMember)
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

	exportSigned(t, s, after)
	for bundle, want := range map[string]bool{before: true, after: false} {
		if out := s.CLI(t, "events", "verify", bundle); out.Code != 0 || strings.Contains(out.Stdout, "WITHOUT A RECORD") {
			t.Errorf("verify the bundle from %s the erasure: %d\n%s%s", filepath.Base(bundle), out.Code, out.Stdout, out.Stderr)
		}
		if got := bundleHolds(t, bundle, plantedWords); got != want {
			t.Errorf("the bundle from %s the erasure holds what was written: %v, want %v", filepath.Base(bundle), got, want)
		}
	}
	s.MustCLI(t, "events", "verify", after, "--against", before)
}

// exportSigned exports the history once a checkpoint covers all of it.
func exportSigned(t *testing.T, s *Service, dir string) {
	t.Helper()
	awaitSealed(t, s.DatabaseURL)
	s.MustCLI(t, "events", "export", dir)
}

// bundleHolds reports whether a file of a bundle holds a text.
func bundleHolds(t *testing.T, dir, text string) (held bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		held = held || strings.Contains(string(content), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return held
}

// TestEraseBesideAnUnfinishedRebuild: the tables of an interrupted rebuild keep the text of an erased author. The
// command reports this, with the commands that remove it.
func TestEraseBesideAnUnfinishedRebuild(t *testing.T) {
	t.Parallel()
	s := Start(t, testdb.New(t))
	p := s.NewPartner(t)
	comment := Comment(Unique("Erased")).With(Fields{
		"uuid": plantedUUID, "username": plantedName, "content": plantedWords,
	})
	p.Import(t, Key(), comment).WantPost(t, 201)
	testdb.Eventually(t, "the author is in authors", func() bool {
		return slices.Contains(testdb.FindWords(t, s.DatabaseURL, plantedName), "public.authors.display_name")
	})
	interruptRebuild(t, s.DatabaseURL)
	holds := func() bool {
		return slices.Contains(testdb.FindWords(t, s.DatabaseURL, plantedName), "authors_2.authors.display_name")
	}
	if !holds() {
		t.Fatal("the interrupted rebuild has left nothing")
	}

	out := s.CLI(t, "author", "erase", p.Name, plantedUUID, "--reason", "asked")
	if out.Code != 0 || strings.Count(out.Stderr, "\n") != 1 ||
		!strings.Contains(out.Stderr, "novelgate projection rebuild authors") ||
		!strings.Contains(out.Stderr, "novelgate projection discard authors") {
		t.Errorf("beside an unfinished rebuild: %+v", out)
	}
	if !holds() {
		t.Error("the warning is wrong: nothing is kept")
	}
	s.MustCLI(t, "projection", "rebuild", "authors")
	testdb.Eventually(t, "nothing is kept any more",
		func() bool { return len(testdb.FindWords(t, s.DatabaseURL, plantedName)) == 0 })
	if out := s.CLI(t, "author", "erase", p.Name, plantedUUID, "--reason", "again"); out.Code != 0 || out.Stderr != "" {
		t.Errorf("without an unfinished rebuild: %+v", out)
	}
}

// interruptRebuild begins to rebuild authors and ends once it has written rows.
func interruptRebuild(t *testing.T, databaseURL string) {
	t.Helper()
	pool := testdb.Pool(t, databaseURL)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	_, err := rebuild.Run(ctx, rebuild.Config{
		Pool: pool, Projection: projections.Authors{}, Logger: slog.New(slog.DiscardHandler),
		Progress: func(at rebuild.Progress) {
			if at.Done > 0 {
				interrupt()
			}
		},
	})
	if err == nil {
		t.Fatal("the rebuild was not interrupted")
	}
}

// TestVacuumAfterErasure: --vacuum waits for the projections, reports those that do not apply the erasure, and leaves
// nothing in tables and statistics.
func TestVacuumAfterErasure(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	s, p := writtenAndAnalysed(t, Fields{"uuid": "neighbour", "username": neighboursWord, "content": "text"},
		Fields{"uuid": "another", "username": "Another", "content": "text"})
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

	execute(t, s.DatabaseURL,
		`UPDATE projections SET state = 'failed', error = 'cannot', failed_log_index = position WHERE name = 'authors'`)
	testdb.Eventually(t, "a projection that has failed is the only one that is behind", func() bool {
		refused := s.Refused(t, "author", "erase", p.Name, plantedUUID, "--reason", "asked", "--vacuum")
		return strings.Contains(refused.Stderr,
			"the author is erased, but the files were not freed, because these projections have not applied it "+
				"yet: authors. ") &&
			strings.Contains(refused.Stderr, "--vacuum once `novelgate projection list`") &&
			strings.Contains(refused.Stderr, "`novelgate projection retry authors`")
	})
	if out := s.CLI(t, "author", "erase", p.Name, plantedUUID, "--reason", "asked"); out.Code != 0 ||
		!strings.Contains(out.Stderr, "authors has stopped and shows what was erased") {
		t.Errorf("without --vacuum: %+v", out)
	}
	s.MustCLI(t, "projection", "retry", "authors")
	testdb.Eventually(t, "the repetition frees what is left", func() bool {
		return s.CLI(t, "author", "erase", p.Name, plantedUUID, "--reason", "asked", "--vacuum").Code == 0
	})
	if held := tables(); len(held) > 0 {
		t.Errorf("what was erased is still in %v", held)
	}
	if held := testdb.FindWords(t, s.DatabaseURL, neighboursWord); !slices.Contains(held,
		"statistics of public.authors.display_name") {
		t.Errorf("what a neighbour wrote is in %v only", held)
	}
}

// TestVacuumOfAnEmptyTable: PostgreSQL keeps the statistics of a table that an erasure has emptied. A rebuild creates a
// table without them.
func TestVacuumOfAnEmptyTable(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	another := plantedUUID + "/another"
	s, p := writtenAndAnalysed(t, Fields{"uuid": another, "username": plantedName, "content": plantedWords})
	for _, erase := range [][]string{{another}, {plantedUUID, "--vacuum"}} {
		testdb.Eventually(t, erase[0]+" is erased", func() bool {
			return s.CLI(t, append([]string{"author", "erase", p.Name, "--reason", "asked"}, erase...)...).Code == 0
		})
	}
	want := []string{"statistics of public.authors.display_name", "statistics of public.authors.external_uuid"}
	if diff := cmp.Diff(want, testdb.FindWords(t, s.DatabaseURL, plantedUUID, plantedName, plantedWords)); diff != "" {
		t.Errorf("after the erasure (-want +got)\n%s", diff)
	}
	s.MustCLI(t, "projection", "rebuild", "authors")
	if held := testdb.FindWords(t, s.DatabaseURL, plantedUUID, plantedName, plantedWords); len(held) > 0 {
		t.Errorf("after the rebuild what was erased is still in %v", held)
	}
}

// writtenAndAnalysed starts a service with analysed comments of the planted author and of others.
func writtenAndAnalysed(t *testing.T, others ...Fields) (*Service, *Partner) {
	t.Helper()
	s := Start(t, testdb.New(t))
	p := s.NewPartner(t)
	comment := Comment(Unique("Erased"))
	planted := Fields{"uuid": plantedUUID, "username": plantedName, "content": plantedWords}
	for _, fields := range append(others, planted) {
		for range 2 { // what is there more than once is a common value
			p.Import(t, Key(), comment.With(fields)).WantPost(t, 201)
		}
	}
	awaitProjections(t, s.DatabaseURL, readLog(t, s.DatabaseURL))
	execute(t, s.DatabaseURL, `ANALYZE`)
	return s, p
}
