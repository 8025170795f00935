package commands_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/uuid"

	"novelgate/aggregates/principal"
	"novelgate/commands/staff"
)

func body(author, title string) string {
	return `{"uuid":"` + author + `","username":"n","content":"c","novel":"` + title + `"}`
}

// TestBlockedAuthor: the very next comment is refused and leaves nothing behind; the very next one after that is over
// is not.
func TestBlockedAuthor(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p, other := s.partner(t, "Partner", principal.Change{}), s.partner(t, "Other", principal.Change{})
	const posts = "/api/integrations/posts"
	troll := staff.AuthorName{IntegrationID: p.ID, ExternalUUID: "troll"}
	first := p.must(t, http.MethodPost, posts, "first", body("troll", "Genji"))
	for round := range 3 {
		if _, err := s.staff.BlockAuthor(t.Context(), troll, "spam"); err != nil {
			t.Fatal(err)
		}
		before := s.events(t)
		for _, title := range []string{"Genji", "A title that nobody knows"} {
			key := fmt.Sprintf("%s%d", title[:1], round)
			if status, got := p.send(t, http.MethodPost, posts, key, body("troll", title)); status != http.StatusForbidden ||
				got["code"] != "author_blocked" || got["retryable"] != false {
				t.Errorf("blocked, %s: %d %v", title, status, got)
			}
		}
		if after := s.events(t); after != before {
			t.Errorf("refusals left %d events", after-before)
		}
		if status, got := p.send(t, http.MethodPost, posts, "first", body("troll", "Genji")); status != http.StatusOK ||
			got["postId"] != first["postId"] || got["created"] != false {
			t.Errorf("replay of an earlier comment: %d %v", status, got)
		}
		// Whoever is like them but somebody else.
		p.must(t, http.MethodPost, posts, fmt.Sprint("Troll", round), body("Troll", "Genji"))
		other.must(t, http.MethodPost, posts, fmt.Sprint("other", round), body("troll", "Genji"))

		if _, err := s.staff.UnblockAuthor(t.Context(), troll, "sorry"); err != nil {
			t.Fatal(err)
		}
		if status, got := p.send(t, http.MethodPost, posts, fmt.Sprint("G", round),
			body("troll", "Genji")); status != http.StatusCreated {
			t.Errorf("unblocked, with the key of a refusal: %d %v", status, got)
		}
	}
}

// TestDeliveryOfHiddenPost: partners learn at once what readers see of their post, and why.
func TestDeliveryOfHiddenPost(t *testing.T) {
	t.Parallel()
	s := newService(t)
	p := s.partner(t, "Partner", principal.Change{})
	id := uuid.MustParse(fmt.Sprint(p.comment(t, "k", "Genji", "")["postId"]))
	who := staff.AuthorName{IntegrationID: p.ID, ExternalUUID: "u"}
	check := func(after string, state string, reason any) {
		t.Helper()
		if status, got := p.delivery(t, "posts", "k"); status != http.StatusOK || got["postState"] != state ||
			got["reason"] != reason || got["state"] != "approved" {
			t.Errorf("after %s: %d %v", after, status, got)
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check("import", "visible", nil)
	_, err := s.staff.HidePost(t.Context(), id, "rude")
	do(err)
	check("hide", "hidden", "rude")
	_, err = s.staff.RestorePost(t.Context(), id, "misread")
	do(err)
	check("restore", "visible", nil)
	_, err = s.staff.HideAuthorPosts(t.Context(), who, "spam")
	do(err)
	check("hide all of the author's", "hidden", "spam")
	_, err = s.staff.HidePost(t.Context(), id, "and rude")
	do(err)
	check("hide by itself, too", "hidden", "and rude")
	_, err = s.staff.RestoreAuthorPosts(t.Context(), who, "no spam")
	do(err)
	check("restore all of the author's", "hidden", "and rude")
	_, err = s.staff.RestorePost(t.Context(), id, "fine")
	do(err)
	check("restore by itself", "visible", nil)
	_, err = s.staff.HideAuthorPosts(t.Context(), who, "spam after all")
	do(err)
	_, err = s.staff.RestorePost(t.Context(), id, "but this one")
	do(err)
	check("restore one of all", "visible", nil)
	if got := p.comment(t, "later", "Genji", ""); got["created"] != true {
		t.Errorf("hiding posts is not blocking: %v", got)
	}
	if _, got := p.delivery(t, "posts", "later"); got["postState"] != "visible" {
		t.Errorf("a post that came after: %v", got)
	}
}
