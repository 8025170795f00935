package readapi_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/readapi"
	"novelgate/readapi/history"
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

func TestNovelsAreListedByTitle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.novel(t, "beta Straße", nil)
	w.novel(t, "Alpha", hosted)
	w.novel(t, "GAMMA", nil)
	w.novel(t, "Pending", func(e *events.NovelCreated) { e.State = "pending" })
	w.append(t, events.NovelStream, w.novel(t, "Rejected", nil), events.NovelRejected{Reason: "no"})
	w.project(t)
	for query, want := range map[string][]string{
		"":                                     {"Alpha", "beta Straße", "GAMMA"},
		"?state=approved":                      {"beta Straße", "GAMMA"},
		"?state=published":                     {"Alpha"},
		"?owner=host":                          {"Alpha"},
		"?owner=fan+SITE":                      {"beta Straße", "GAMMA"},
		"?owner=nobody":                        {},
		"?q=STRASSE":                           {"beta Straße"},
		"?q=m":                                 {"GAMMA"},
		"?q=" + url.QueryEscape("%"):           {},
		"?q=pend":                              {},
		"?q=a&state=approved&owner=Fan%20Site": {"beta Straße", "GAMMA"},
		"?limit=100&cursor=":                   {"Alpha", "beta Straße", "GAMMA"},
	} {
		if diff := cmp.Diff(want, titles(read[listAnswer](t, w, "/api/novels"+query))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
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
		if c.After = page.Next; page.Next == "" {
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

// TestCursorsOfOtherLists: cursors of the history, of discussions and of staff lists are refused by the list of novels,
// and the reverse.
func TestCursorsOfOtherLists(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	novel := w.novel(t, "A", nil)
	w.novel(t, "B", nil)
	w.comment(t, novel, events.PostImported{})
	w.comment(t, novel, events.PostImported{})
	w.project(t)
	ofNovels := *read[listAnswer](t, w, "/api/novels?limit=1").NextCursor
	ofDiscussion := *read[discussionAnswer](t, w, "/api/novels/a/discussion?limit=1").NextCursor
	point := history.Cursor{Position: 747, Batch: uuid.New()}
	staffs := base64.RawURLEncoding.EncodeToString([]byte("ta"))
	for _, cursor := range []string{ofDiscussion, point.String(), staffs} {
		wantProblem(t, w, "/api/novels?cursor="+cursor, 400, "invalid_request")
	}
	wantProblem(t, w, "/api/novels/a/discussion?cursor="+ofNovels, 400, "invalid_request")
	if _, err := history.ParseCursor(ofNovels); err == nil {
		t.Errorf("%s is a cursor of the history, too", ofNovels)
	}
}

func TestParametersAreChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.novel(t, "A", nil)
	for _, path := range []string{
		"/api/novels?limit=0", "/api/novels?limit=101", "/api/novels?limit=x", "/api/novels?state=rejected",
		"/api/novels?cursor=%21", "/api/novels?q=a&q=b",
		"/api/novels?q=%ff", "/api/novels?q=%00", "/api/novels?cursor=_w", "/api/novels?cursor=AA", "/api/novels?cursor=Yw",
		"/api/novels/a/discussion?sort=best", "/api/novels/a/discussion?chapter=-1", "/api/novels/a/discussion?chapter=1e3",
		"/api/novels/a/discussion?chapter=12345678", "/api/novels/a/discussion?cursor=abc", "/api/novels/a/discussion?post=7",
		"/api/novels/a/discussion?under=x",
		"/api/novels/a/discussion?under=7a0c1d1c-6a0e-5d4e-8f37-9a9a2c6d4c02&post=7a0c1d1c-6a0e-5d4e-8f37-9a9a2c6d4c02",
		"/api/novels/a/discussion?cursor=eAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		"/api/novels/a/discussion?cursor=bn9______________________________________",
	} {
		wantProblem(t, w, path, 400, "invalid_request")
	}
	if page := w.get(t, "/novels?q=a&q=b").Body.String(); !strings.Contains(page, "<p>q: must be given once.</p>") {
		t.Errorf("a repeated parameter:\n%s", page)
	}
	wantProblem(t, w, "/api/posts/7", 404, "not_found")
	wantProblem(t, w, "/api/posts/7a0c1d1c-6a0e-5d4e-8f37-9a9a2c6d4c02", 404, "not_found")
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

// TestAuthorThatTheProjectionLacks: posts may be ahead of authors. The name then comes from the comment.
func TestAuthorThatTheProjectionLacks(t *testing.T) {
	t.Parallel()
	w, author, id, _ := spam(t)
	w.project(t)
	w.exec(t, `DELETE FROM authors WHERE author_id = $1`, author)
	if p := read[postAnswer](t, w, "/api/posts/"+id.String()); p.Author == nil || p.Author.DisplayName != "Spammer" {
		t.Errorf("the comment is by %+v", p.Author)
	}
	if body := w.get(t, "/api/novels/a/discussion").Body.String(); !strings.Contains(body, `"displayName":"Spammer"`) {
		t.Errorf("the discussion lacks the name:\n%s", body)
	}
}

// TestNothingPrivateIsShown: no identifiers of the partner's users and deliveries, and nothing about keys.
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
