package e2e_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// desk is what a request of any route can be about: an integration under review with a key and a pending novel, a novel
// of the host's with a comment and a hidden one, an author whom staff have linked and one whom they have blocked with
// all comments hidden, and two names that nothing has yet.
type desk struct {
	ada     *Person
	partner *Partner
	novelID string
	title   string // of the novel
	hosted  string // title of the host's
	hostID  string // of the host's
	slug    string // of the host's

	post, hiddenPost string // ids of comments on the host's novel, by …
	linked, blocked  string // … these authors

	freeName, freeTitle string
	delivered           string // Idempotency-Key of the novel
}

// newDesk sets a desk up.
func newDesk(t testing.TB, ada *Person) *desk {
	t.Helper()
	d := &desk{
		ada: ada, title: Unique("Pending"), hosted: Unique("Hosted"), freeName: Unique("free"),
		freeTitle: Unique("Free"), delivered: "delivered/" + Key(),
	}
	d.partner = ada.Service.NewPartner(t, Fields{"review": true})
	d.novelID = d.partner.Upsert(t, d.delivered, Fields{"novel": d.title}).WantNovel(t, 201).NovelID
	var hosted struct {
		NovelID string `json:"novelId"`
		Slug    string `json:"slug"`
	}
	ada.Post(t, "/api/admin/novels", Key(), Fields{"novel": d.hosted}).WantJSON(t, 201, &hosted)
	d.hostID, d.slug = hosted.NovelID, hosted.Slug
	d.linked, d.blocked = Unique("linked"), Unique("blocked")
	d.post, d.hiddenPost = d.comment(t, d.linked), d.comment(t, d.blocked)
	authors := "/api/admin/integrations/" + d.partner.IntegrationID + "/authors/"
	ada.Put(t, authors+d.linked+"/member", Fields{"memberId": "member"}).WantJSON(t, 200, &struct{}{})
	for _, path := range []string{
		authors + d.blocked + "/block", authors + d.blocked + "/hide-posts", "/api/admin/posts/" + d.hiddenPost + "/hide",
	} {
		ada.Post(t, path, Key(), because(d)).WantJSON(t, 200, &struct{}{})
	}
	return d
}

// comment imports a comment of an author on the host's novel and returns its id.
func (d *desk) comment(t testing.TB, author string) string {
	t.Helper()
	return d.partner.Import(t, Key(), Comment(d.hosted).With(Fields{"uuid": author})).WantPost(
		t, 201).PostID
}

// path fills the parameters of a documented path in. A parameter that it does not know fails the test: a new one needs
// a line here.
func (d *desk) path(t testing.TB, documented string) string {
	t.Helper()
	filled := strings.NewReplacer(
		"{integrationId}", d.partner.IntegrationID, "{keyId}", d.partner.KeyID, "{novelId}", d.novelID, "{postId}", d.post,
		"{uuid}", d.linked,
		"{streamType}", "integration", "{streamId}", d.partner.IntegrationID, "{logIndex}", "0",
		"{slug}", d.slug, "{tile}", "entries/000.p/1",
		"{idempotencyKey}", url.PathEscape(d.delivered)+"?operation=novels",
	).Replace(documented)
	if strings.Contains(filled, "{") {
		t.Fatalf("%s has a parameter that the test has no value for", documented)
	}
	return filled
}

// fitting names what a route demands to be in another state than the rest of the desk.
func (d *desk) fitting(route Route) string {
	switch route.String() {
	case "PATCH /api/admin/novels/{novelId}": // only the host's own novels can be edited
		return strings.Replace(route.Path, "{novelId}", d.hostID, 1)
	case "GET /ledger/proof":
		return route.Path + "?logIndex=0"
	case "DELETE /api/admin/integrations/{integrationId}/authors/{uuid}": // a reason is a must
		return route.Path + "?reason=test"
	case "POST /api/admin/posts/{postId}/restore":
		return strings.Replace(route.Path, "{postId}", d.hiddenPost, 1)
	case "POST /api/admin/integrations/{integrationId}/authors/{uuid}/unblock",
		"POST /api/admin/integrations/{integrationId}/authors/{uuid}/restore-posts":
		return strings.Replace(route.Path, "{uuid}", d.blocked, 1)
	default:
		return route.Path
	}
}

// request is a valid request to the route about what is on the desk, without an API key.
func (d *desk) request(t testing.TB, route Route, body func(*desk) Fields) Request {
	t.Helper()
	r := Request{Method: route.Method, Path: d.path(t, d.fitting(route))}
	if body != nil {
		r.Body, r.ContentType = body(d).JSON(t), "application/json"
	}
	if route.NeedsKey() {
		r.Key = Key()
	}
	return r
}

// standing is what commands of staff can change, as staff sees it.
type standing struct {
	Integration, Novel map[string]any
	Keys               []map[string]any // of the integration, without their last use
	Integrated         int              // integrations that have the free name
	Published          int              // novels that have the free title
	Posts, Authors     []map[string]any // moderated ones and others
}

// followed are the members of an author that come from a table which follows the log.
var followed = []string{"displayName", "firstSeenAt"}

func (d *desk) standing(t testing.TB) standing {
	t.Helper()
	var s standing
	d.ada.Get(t, "/api/admin/integrations/"+d.partner.IntegrationID).WantJSON(t, 200, &s.Integration)
	d.ada.Get(t, "/api/admin/novels/"+d.novelID).WantJSON(t, 200, &s.Novel)
	s.Keys = page(t, d.ada, "/api/admin/integrations/"+d.partner.IntegrationID+"/keys")
	for _, key := range s.Keys {
		delete(key, "lastUsedAt")
	}
	for _, integration := range page(t, d.ada, "/api/admin/integrations") {
		if integration["name"] == d.freeName {
			s.Integrated++
		}
	}
	for _, post := range []string{d.post, d.hiddenPost} {
		var state map[string]any
		d.ada.Get(t, "/api/admin/posts/"+post).WantJSON(t, 200, &state)
		s.Posts = append(s.Posts, state)
	}
	for _, author := range []string{d.linked, d.blocked} {
		var state map[string]any
		d.ada.Get(t, "/api/admin/integrations/"+d.partner.IntegrationID+"/authors/"+author).WantJSON(t, 200, &state)
		for _, projected := range followed {
			delete(state, projected)
		}
		s.Authors = append(s.Authors, state)
	}
	s.Published = len(page(t, d.ada, "/api/admin/novels?text="+url.QueryEscape(d.freeTitle)))
	return s
}

// page returns what a list of staff holds, over all of its pages.
func page(t testing.TB, ada *Person, path string) []map[string]any {
	t.Helper()
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	var all []map[string]any
	for cursor := ""; ; {
		var part struct {
			Items      []map[string]any `json:"items"`
			NextCursor *string          `json:"nextCursor"`
		}
		ada.Get(t, path+separator+"limit=500"+cursor).WantJSON(t, http.StatusOK, &part)
		all = append(all, part.Items...)
		if part.NextCursor == nil {
			return all
		}
		cursor = "&cursor=" + url.QueryEscape(*part.NextCursor)
	}
}

// expired waits until a key of a moment's life, as `create` or `issue` printed it, is over.
func expired(t testing.TB, expiresAt *time.Time) {
	t.Helper()
	if expiresAt == nil {
		t.Fatal("the key has no expiry")
	}
	time.Sleep(time.Until(*expiresAt) + 10*time.Millisecond)
}
