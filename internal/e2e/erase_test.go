package e2e_test

import (
	"strings"
	"testing"

	"novelgate/internal/testdb"
)

// TestErasedAuthor follows an erasure from the request of staff to what readers, the partner and the log of the service
// show.
func TestErasedAuthor(t *testing.T) {
	t.Parallel()
	s := Start(t, testdb.New(t), "--log-level", "debug")
	ada := s.NewStaff(t)
	d := newDesk(t, ada)
	key := Key()
	comment := Comment(d.hosted).With(Fields{"uuid": d.linked, "content": acceptedWords})
	first := d.partner.Import(t, key, comment).WantPost(t, 201)
	authors := "/api/admin/integrations/" + d.partner.IntegrationID + "/authors/"

	ada.Delete(t, authors+d.linked).WantInvalid(t, "reason")
	ada.Delete(t, authors+"nobody?reason=r").WantProblem(t, 404, "not_found")
	var erased struct{ Comments, Decisions int }
	awaitSealed(t, s.DatabaseURL)
	ada.Delete(t, authors+d.linked+"?reason=asked").WantJSON(t, 200, &erased)
	if erased.Comments != 2 || erased.Decisions != 1 {
		t.Errorf("erased %+v", erased)
	}
	awaitSealed(t, s.DatabaseURL)
	ada.Delete(t, authors+d.linked+"?reason=again").WantJSON(t, 200, &erased)
	if erased.Comments != 0 || erased.Decisions != 0 {
		t.Errorf("erased again: %+v", erased)
	}
	for _, id := range []string{d.post, first.PostID} {
		testdb.Eventually(t, "readers see that the comment is erased", func() bool {
			var seen struct {
				Erased          bool
				Content, Author any
			}
			ada.Get(t, "/api/posts/"+id).WantJSON(t, 200, &seen)
			return seen.Erased && seen.Content == nil && seen.Author == nil
		})
	}
	// A retry is answered as ever, and nothing is left to compare it with.
	again := d.partner.Import(t, key, comment.With(Fields{"content": "Something else"}))
	again.WantReplayed(t, true, false)
	if got := again.WantPost(t, 200); got.PostID != first.PostID || got.ThreadID != first.ThreadID {
		t.Errorf("a retry is answered with %+v", got)
	}
	// Whoever is blocked stays blocked.
	awaitSealed(t, s.DatabaseURL)
	out := s.CLI(t, "author", "erase", d.partner.Name, d.blocked, "--reason", "asked", "--vacuum", "--json")
	if out.Code != 0 || !strings.Contains(out.Stdout, `"comments"`) {
		t.Errorf("the command line: %+v", out)
	}
	d.partner.Import(t, Key(), Comment(d.hosted).With(Fields{"uuid": d.blocked})).WantProblem(t,
		403, "author_blocked")
	for _, planted := range []string{acceptedWords, d.linked, d.blocked} {
		if strings.Contains(s.stdout.String()+s.stderr.String(), planted) {
			t.Errorf("the log of the service names %s", planted)
		}
	}
}
