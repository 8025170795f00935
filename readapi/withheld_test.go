package readapi_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"novelgate/events"
)

// withheld wants a comment that keeps its place and shows neither text nor author, wherever it is read.
func withheld(t testing.TB, w *world, id, child uuid.UUID, hidden bool) {
	t.Helper()
	for _, path := range []string{
		"/api/novels/a/discussion", "/api/novels/a/discussion?post=" + id.String(),
		"/api/novels/a/discussion?under=" + id.String(),
	} {
		page := read[discussionAnswer](t, w, path)
		p, ok := holds(page, id)
		if !ok || p.Content != nil || p.Author != nil || p.Hidden != hidden || p.Erased == hidden {
			t.Errorf("%s: %+v by %+v", path, p, p.Author)
		}
		if _, ok := holds(page, child); !ok {
			t.Errorf("%s: its reply is gone", path)
		}
	}
	if p := read[postAnswer](t, w, "/api/posts/"+id.String()); p.Content != nil || p.Author != nil || p.Hidden != hidden ||
		p.Erased == hidden {
		t.Errorf("%+v by %+v", p, p.Author)
	}
	for _, path := range []string{
		"/api/novels/a/discussion", "/api/posts/" + id.String(), "/novels/a/discussion",
		"/novels/a/discussion?post=" + id.String(),
		"/api/novels/a/discussion?asOf=2999-01-01T00:00:00Z",
	} {
		if body := w.get(t, path).Body.String(); strings.Contains(body, "Spam") || strings.Contains(body, "Spammer") {
			t.Errorf("%s shows what is withheld:\n%s", path, body)
		}
	}
}

func spam(t testing.TB) (w *world, author, id, child uuid.UUID) {
	t.Helper()
	w = newWorld(t)
	novel := w.novel(t, "A", nil)
	id = w.comment(t, novel,
		events.PostImported{Comment: &events.Comment{ExternalUUID: "spammer", Username: "Spammer", Content: "Spam"}})
	child = w.comment(t, novel, reply(id))
	return w, events.AuthorID(w.platform, "spammer"), id, child
}

const decide = `INSERT INTO author_decisions (author_id, integration_id, member_id, posts_hidden_until, stream_version) VALUES ($1, $2, $3, $4, 1)`

func TestHiddenComment(t *testing.T) {
	t.Parallel()
	w, _, id, child := spam(t)
	w.project(t)
	w.exec(t, `UPDATE posts SET hidden = true, moderated_at = now() WHERE post_id = $1`, id)
	withheld(t, w, id, child, true)
}

func TestAllCommentsOfAnAuthorHidden(t *testing.T) {
	t.Parallel()
	w, author, id, child := spam(t)
	last := w.log[len(w.log)-1].RecordedAt
	w.exec(t, decide, author, w.platform, nil, last)
	if p := read[postAnswer](t, w, "/api/posts/"+id.String()); !p.Hidden || p.Content != nil || p.Author != nil {
		t.Errorf("before the projection: %+v", p)
	}
	w.project(t)
	withheld(t, w, id, child, true)
	later := w.comment(t, events.NovelID("a"),
		events.PostImported{Comment: &events.Comment{ExternalUUID: "spammer", Username: "Spammer", Content: "Sorry"}})
	if p := read[postAnswer](t, w, "/api/posts/"+later.String()); p.Hidden || *p.Content != "Sorry" {
		t.Errorf("a later comment: %+v", p)
	}
	w.exec(t, `UPDATE posts SET moderated_at = $2 WHERE post_id = $1`, id, last.AddDate(1, 0, 0))
	if p := read[postAnswer](t, w, "/api/posts/"+id.String()); p.Hidden || *p.Content != "Spam" {
		t.Errorf("restored by itself: %+v", p)
	}
}

func TestErasedComment(t *testing.T) {
	t.Parallel()
	w, _, id, child := spam(t)
	w.project(t)
	w.exec(t, `UPDATE posts SET author_id = NULL, content_bytes = NULL WHERE post_id = $1`, id)
	withheld(t, w, id, child, false)
}

func TestLinkedAuthor(t *testing.T) {
	t.Parallel()
	w, author, id, _ := spam(t)
	w.exec(t, decide, author, w.platform, "member-17", nil)
	for _, when := range []string{"before the projection", "after it"} {
		p := read[postAnswer](t, w, "/api/posts/"+id.String())
		if p.Author == nil || *p.Author != (authorAnswer{MemberID: "member-17"}) || *p.Content != "Spam" {
			t.Errorf("%s: %+v by %+v", when, p, p.Author)
		}
		w.project(t)
	}
	const asOf = "/discussion?asOf=2999-01-01T00:00:00Z"
	for _, path := range []string{"/novels/a/discussion", "/novels/a" + asOf, "/api/novels/a" + asOf} {
		if body := w.get(t, path).Body.String(); !strings.Contains(body, "member-17") || strings.Contains(body, "Spammer") {
			t.Errorf("%s attributes it to somebody else:\n%s", path, body)
		}
	}
}

// A comment that staff have said something about before the projection has come by is withheld until that tells what.
func TestDecisionAboutACommentThatTheProjectionLacks(t *testing.T) {
	t.Parallel()
	w, _, id, _ := spam(t)
	w.append(t, events.PostStream, id, events.NovelRejected{Reason: "any event will do"})
	if p := read[postAnswer](t, w, "/api/posts/"+id.String()); !p.Hidden || p.Content != nil {
		t.Errorf("%+v", p)
	}
}

// TestNothingPrivateIsShown: neither the partner's identifiers of users and deliveries nor anything about keys.
func TestNothingPrivateIsShown(t *testing.T) {
	t.Parallel()
	w, author, id, _ := spam(t)
	w.project(t)
	for _, path := range []string{
		"/api/novels", "/api/novels/a", "/api/novels/a/discussion", "/api/posts/" + id.String(), "/novels", "/novels/a",
		"/novels/a/discussion",
	} {
		body := w.get(t, path).Body.String()
		for _, secret := range []string{"spammer", "secret-uuid", "key-", author.String(), w.platform.String()} {
			if strings.Contains(body, secret) {
				t.Errorf("%s shows %q", path, secret)
			}
		}
	}
}
