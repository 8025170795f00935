package e2e_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"novelgate/internal/testdb"
	"novelgate/internal/verifier"
	"novelgate/projections"
)

// What is planted about one author, and what is not about them.
const (
	plantedUUID    = "planted/uuid/7"
	plantedName    = "PlantedName"
	plantedWords   = "PlantedWords of the first, "
	plantedMember  = "planted-member"
	neighboursWord = "NeighboursWords"
)

// TestErasedForGood: what an author wrote is in no table and no dump afterwards, and no rebuild brings it back, while
// pages keep the place, and histories that were exported before and after both verify, with our own tool and with that
// of the independent verifier.
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
		return status == 200 && strings.Count(shown, plantedWords) == len(posts) && strings.Contains(shown, neighboursWord) &&
			strings.Contains(shown, plantedMember)
	})

	personal := []string{plantedUUID, plantedName, plantedWords, plantedMember}
	dir := t.TempDir()
	before, after := filepath.Join(dir, "before"), filepath.Join(dir, "after")
	exportSigned(t, s, before)
	held := testdb.Holding(t, s.DatabaseURL, personal...)
	if len(held) < 4 {
		t.Fatalf("the search finds what is planted in %v only", held)
	}

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
		if held := testdb.Holding(t, s.DatabaseURL, personal...); len(held) > 0 {
			t.Errorf("%s: what was erased is still in %v", when, held)
		}
	}
	wantErased("after the erasure")
	for _, projection := range append(projections.All(), projections.Inline()...) {
		if out := s.CLI(t, "projection", "rebuild", projection.Name()); out.Code != 0 {
			t.Errorf("rebuild %s: %d\n%s", projection.Name(), out.Code, out.Stderr)
		}
	}
	wantErased("after a rebuild of everything")
	if held := testdb.Holding(t, s.DatabaseURL, neighboursWord); len(held) < 2 {
		t.Errorf("what a neighbour wrote is in %v only", held)
	}

	exportSigned(t, s, after)
	for bundle, want := range map[string]bool{before: true, after: false} {
		if out := s.CLI(t, "events", "verify", bundle); out.Code != 0 || strings.Contains(out.Stdout, "WITHOUT A RECORD") {
			t.Errorf("verify the bundle from %s the erasure: %d\n%s%s", filepath.Base(bundle), out.Code, out.Stdout, out.Stderr)
		}
		if _, err := verifier.Verify(bundle, ledgerStatus(t, s).VerifierKeys[0]); err != nil {
			t.Errorf("the independent verifier rejects the bundle from %s the erasure: %v", filepath.Base(bundle), err)
		}
		if got := bundleHolds(t, bundle, plantedWords); got != want {
			t.Errorf("the bundle from %s the erasure holds what was written: %v, want %v", filepath.Base(bundle), got, want)
		}
	}
	if out := s.CLI(t, "events", "verify", after, "--against", before); out.Code != 0 {
		t.Errorf("verify the newer bundle against the older: %d\n%s%s", out.Code, out.Stdout, out.Stderr)
	}
}

// exportSigned exports the history once a checkpoint covers all of it.
func exportSigned(t *testing.T, s *Service, dir string) {
	t.Helper()
	awaitSigned(t, s)
	if out := s.CLI(t, "events", "export", dir); out.Code != 0 {
		t.Fatalf("export: %d\n%s", out.Code, out.Stderr)
	}
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
