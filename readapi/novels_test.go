package readapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/readapi"
)

func hosted(e *events.NovelCreated) { e.State, e.OwnerID = "published", nil }

func titles(list listAnswer) []string {
	got := []string{}
	for _, n := range list.Items {
		got = append(got, n.Novel)
	}
	return got
}

// allTitles reads a list in pages.
func allTitles(t *testing.T, w *world, query string, limit int) []string {
	t.Helper()
	got := []string{}
	for cursor := ""; ; {
		page := read[listAnswer](t, w, fmt.Sprintf("/api/novels?%s&limit=%d&cursor=%s", query, limit, cursor))
		got = append(got, titles(page)...)
		if page.NextCursor == nil {
			return got
		}
		cursor = *page.NextCursor
	}
}

// TestASearchIsBounded: however rare matches are, a page examines a limited number of titles, and the next one
// continues.
func TestASearchIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 9 {
		w.novel(t, fmt.Sprintf("Volume %d", i), nil)
	}
	w.project(t)
	reader := &readapi.Reader{DB: w.Read}
	got, pages := []string{}, 0
	for c := (readapi.CatalogueParams{Sort: readapi.ByTitle, Text: "8", Limit: 5, MaxExamined: 3}); ; pages++ {
		page := testdb.Must(reader.Novels(t.Context(), c))(t)
		for _, n := range page.Novels {
			got = append(got, n.Title)
		}
		if c.Cursor = string(page.Next); page.Next == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{"Volume 8"}, got); diff != "" || pages != 3 {
		t.Errorf("%d further pages (-want +got):\n%s", pages, diff)
	}
}

func TestNovelAsThePublicSeesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.novel(t, "The Clockmaker's Apprentice", func(e *events.NovelCreated) {
		e.Author, e.Synopsis, e.Genres, e.ReadingStatus = "Ida Verne", "A watch.", []string{"Fantasy"}, "ongoing"
	})
	platform := "Fan Site"
	want := novelAnswer{
		NovelID: id, Slug: "the-clockmakers-apprentice", URL: public + "/novels/the-clockmakers-apprentice",
		Novel:  "The Clockmaker's Apprentice",
		Author: "Ida Verne", Synopsis: "A watch.", Genres: []string{"Fantasy"}, ReadingStatus: "ongoing", State: "approved",
		Platform: &platform,
	}
	if diff := cmp.Diff(want, read[novelAnswer](t, w, "/api/novels/the-clockmakers-apprentice")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w.append(t, events.NovelStream, id, events.NovelPublished{})
	want.State, want.Platform = "published", nil
	if diff := cmp.Diff(want, read[novelAnswer](t, w, "/api/novels/the-clockmakers-apprentice")); diff != "" {
		t.Errorf("adopted (-want +got):\n%s", diff)
	}
}

func TestWhatIsNotPublic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.novel(t, "Pending", func(e *events.NovelCreated) { e.State = "pending" })
	rejected := w.novel(t, "Rejected", nil)
	gone := w.comment(t, rejected, events.PostImported{})
	pending := w.comment(t, events.NovelID("pending"), events.PostImported{})
	w.append(t, events.NovelStream, rejected, events.NovelRejected{Reason: "no"})
	for _, title := range []string{"barred", "free"} {
		w.append(t, events.NovelStream, events.NovelID(title), events.NovelBarred{Title: title, Slug: title, Reason: "no"})
	}
	w.append(t, events.NovelStream, events.NovelID("free"), events.NovelUnbarred{Reason: "after all"})
	check := func(when string) {
		t.Helper()
		for _, path := range []string{"/api/novels/", "/novels/"} {
			for slug, status := range map[string]int{
				"pending": 404, "unknown": 404, "barred": 404, "free": 404, "rejected": 410,
			} {
				for _, rest := range []string{"", "/discussion", "/discussion?post=" + gone.String()} {
					if got := w.get(t, path+slug+rest); got.Code != status {
						t.Errorf("%s: GET %s: %d, want %d", when, path+slug+rest, got.Code, status)
					}
				}
			}
		}
		wantProblem(t, w, "/api/posts/"+gone.String(), 410, "gone")
		wantProblem(t, w, "/api/posts/"+pending.String(), 404, "not_found")
	}
	check("before the projection")
	w.project(t)
	check("after it")
	wantProblem(t, w, "/api/novels/unknown", 404, "not_found")
	wantProblem(t, w, "/api/novels/rejected", 410, "gone")
}

// TestParametersAreChecked: what web.Query refuses, in every part of an address.
func TestParametersAreChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	novel := w.novel(t, "A", nil)
	w.novel(t, "B", nil)
	id := w.comment(t, novel, events.PostImported{}).String()
	w.comment(t, novel, events.PostImported{})
	w.project(t)
	ofNovels := *read[listAnswer](t, w, "/api/novels?limit=1").NextCursor
	ofDiscussion := *read[discussionAnswer](t, w, "/api/novels/a/discussion?limit=1").NextCursor
	for _, query := range []string{
		"novels?limit=0", "novels?limit=101", "novels?limit=x", "novels?state=rejected", "novels?cursor=%21",
		"novels?q=a&q=b",
		"novels?q=%ff", "novels?q=%00", "novels?q=%zz", "novels?owner=a%00", "novels?genre=%e2%82", "novels?cursor=_w",
		"novels?cursor=AA", "novels?cursor=Yw", "novels?cursor=Y2EA", "novels?cursor=" + ofDiscussion,
		"novels?sort=newest&cursor=" + ofNovels,
		"novels/a?x=%", "novels/a/discussion?sort=best", "novels/a/discussion?chapter=-1", "novels/a/discussion?chapter=1e3",
		"novels/a/discussion?chapter=12345678", "novels/a/discussion?chapter=a%00", "novels/a/discussion?cursor=abc",
		"novels/a/discussion?post=7", "novels/a/discussion?post=" + id + "%00", "novels/a/discussion?under=x",
		"novels/a/discussion?under=" + id + "&post=" + id, "novels/a/discussion?post=" + id + "&cursor=" + ofDiscussion,
		"novels/a/discussion?under=" + uuid.Nil.String() + "&post=" + uuid.Nil.String(),
		"novels/a/discussion?cursor=" + ofNovels, "novels/a/discussion?cursor=eAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		"novels/a/discussion?cursor=bn9______________________________________",
	} {
		wantProblem(t, w, "/api/"+query, 400, "invalid_request")
		if page := w.get(t, "/"+query); page.Code != 400 && !strings.Contains(query, "under=") {
			t.Errorf("the page /%s: %d", query, page.Code)
		}
	}
	if page := w.get(t, "/novels?q=a&q=b").Body.String(); !strings.Contains(page, "<p>q: must be given once.</p>") {
		t.Errorf("a repeated parameter:\n%s", page)
	}
	for _, path := range []string{
		"/api/posts/7", "/api/posts/7a0c1d1c-6a0e-5d4e-8f37-9a9a2c6d4c02", "/api/posts/" + id + "%00", "/api/novels/%00",
		"/api/novels/a%ff/discussion", "/api/novels/%ed%a0%80/discussion?post=" + id,
		"/api/novels/a/discussion?under=" + uuid.Nil.String(), "/api/novels/a/discussion?post=" + uuid.Nil.String(),
	} {
		wantProblem(t, w, path, 404, "not_found")
	}
	for _, path := range []string{"/novels/%00", "/novels/a%ff/feed.atom", "/assets/%00"} {
		if got := w.get(t, path); got.Code != 404 {
			t.Errorf("GET %s: %d", path, got.Code)
		}
	}
}

// withheld checks that a comment has its place without text and author, on every route.
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
	return w, testdb.AuthorID(w.platform, "spammer"), id, child
}

const decide = `INSERT INTO author_decisions (author_id, integration_id, member_id, posts_hidden_until) VALUES ($1, $2, $3, $4)`

// TestWithheldComments are hidden by themselves, hidden with all of their author, or erased.
func TestWithheldComments(t *testing.T) {
	t.Parallel()
	w, author, id, child := spam(t)
	w.flush(t)
	last := w.log[len(w.log)-1].RecordedAt
	w.exec(t, decide, author, w.platform, nil, last)
	w.project(t)
	withheld(t, w, id, child, true)
	later := w.comment(t, events.NovelID("a"),
		events.PostImported{Comment: &events.Comment{ExternalUUID: "spammer", Username: "Spammer", Content: "Sorry"}})
	w.project(t)
	if p := read[postAnswer](t, w, "/api/posts/"+later.String()); p.Hidden || *p.Content != "Sorry" {
		t.Errorf("a later comment: %+v", p)
	}
	w.exec(t, `UPDATE posts SET moderated_at = $2 WHERE post_id = $1`, id, last.AddDate(1, 0, 0))
	if p := read[postAnswer](t, w, "/api/posts/"+id.String()); p.Hidden || *p.Content != "Spam" {
		t.Errorf("restored by itself: %+v", p)
	}
	w.exec(t, `DELETE FROM posts WHERE post_id = $1`, later)
	w.exec(t, `UPDATE posts SET hidden = true WHERE post_id = $1`, id)
	withheld(t, w, id, child, true)
	w.exec(t, `UPDATE posts SET author_id = NULL, content_bytes = NULL WHERE post_id = $1`, id)
	withheld(t, w, id, child, false)
}

func TestLinkedAuthor(t *testing.T) {
	t.Parallel()
	w, author, id, _ := spam(t)
	w.exec(t, decide, author, w.platform, "member-17", nil)
	w.project(t)
	p := read[postAnswer](t, w, "/api/posts/"+id.String())
	if p.Author == nil || *p.Author != (authorAnswer{MemberID: "member-17"}) || *p.Content != "Spam" {
		t.Errorf("%+v by %+v", p, p.Author)
	}
	for _, path := range []string{"/novels/a/discussion", "/api/novels/a/discussion"} {
		if body := w.get(t, path).Body.String(); !strings.Contains(body, "member-17") || strings.Contains(body, "Spammer") {
			t.Errorf("%s attributes it to somebody else:\n%s", path, body)
		}
	}
}

// TestNothingPrivateIsShown: no identifiers of the partner's users and deliveries, and nothing about keys. While the
// projection of authors is behind, the name of an author comes from the comment.
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
	w.exec(t, `DELETE FROM authors WHERE author_id = $1`, author)
	for _, path := range []string{"/api/novels/a/discussion", "/api/posts/" + id.String()} {
		if body := w.get(t, path).Body.String(); !strings.Contains(body, `"displayName":"Spammer"`) {
			t.Errorf("%s lacks the name:\n%s", path, body)
		}
	}
}
