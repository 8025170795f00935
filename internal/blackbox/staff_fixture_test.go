package blackbox_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"novelgate/internal/blackbox"
)

// desk is what a request of any route can be about: an integration under review with a key and a pending novel, a novel of the
// host's, and two names that nothing has yet.
type desk struct {
	ada     *blackbox.Person
	partner *blackbox.Partner
	novelID string
	title   string // of the novel
	hosted  string // title of the host's
	hostID  string // of the host's

	freeName, freeTitle string
	delivered           string // Idempotency-Key of the novel
}

// newDesk sets a desk up.
func newDesk(t testing.TB, ada *blackbox.Person) *desk {
	t.Helper()
	d := &desk{
		ada: ada, title: blackbox.Unique("Pending"), hosted: blackbox.Unique("Hosted"), freeName: blackbox.Unique("free"), freeTitle: blackbox.Unique("Free"), delivered: "delivered/" + blackbox.Key(),
	}
	d.partner = hire(t, ada, blackbox.Fields{"review": true})
	d.novelID = d.partner.Upsert(t, d.delivered, blackbox.Fields{"novel": d.title}).WantNovel(t, 201).NovelID
	var hosted struct {
		NovelID string `json:"novelId"`
	}
	ada.Post(t, "/api/admin/novels", blackbox.Key(), blackbox.Fields{"novel": d.hosted}).WantJSON(t, 201, &hosted)
	d.hostID = hosted.NovelID
	return d
}

// hire takes a partner with both capabilities and high limits on, over HTTP. settings are added.
func hire(t testing.TB, ada *blackbox.Person, settings blackbox.Fields) *blackbox.Partner {
	t.Helper()
	p := &blackbox.Partner{Service: ada.Service}
	wanted := blackbox.Fields{"name": blackbox.Unique("partner"), "capabilities": []string{"novels", "posts"}, "postsPerMinute": 100000, "novelsPerMinute": 100000}
	ada.Post(t, "/api/admin/integrations", blackbox.Key(), wanted.With(settings)).WantJSON(t, 201, &p.NewIntegration)
	return p
}

// path fills the parameters of a documented path in. A parameter that it does not know fails the test: a new one needs a line here.
func (d *desk) path(t testing.TB, documented string) string {
	t.Helper()
	filled := strings.NewReplacer(
		"{integrationId}", d.partner.IntegrationID, "{keyId}", d.partner.KeyID, "{novelId}", d.novelID,
		"{idempotencyKey}", url.PathEscape(d.delivered)+"?operation=novels",
	).Replace(documented)
	if strings.Contains(filled, "{") {
		t.Fatalf("%s has a parameter that the test has no value for", documented)
	}
	return filled
}

// request is a valid request to the route about what is on the desk, without an API key.
func (d *desk) request(t testing.TB, route blackbox.Route, body func(*desk) blackbox.Fields) blackbox.Request {
	t.Helper()
	documented := route.Path
	if route.String() == "PATCH /api/admin/novels/{novelId}" { // only the host's own novels can be edited
		documented = "/api/admin/novels/" + d.hostID
	}
	r := blackbox.Request{Method: route.Method, Path: d.path(t, documented)}
	if body != nil {
		r.Body, r.ContentType = body(d).JSON(t), "application/json"
	}
	if route.NeedsKey() {
		r.Key = blackbox.Key()
	}
	return r
}

// standing is what commands of staff can change, as staff sees it.
type standing struct {
	Integration, Novel map[string]any
	Keys               []map[string]any // of the integration, without their last use
	Integrated         int              // integrations that have the free name
	Published          int              // novels that have the free title
}

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
	s.Published = len(page(t, d.ada, "/api/admin/novels?text="+url.QueryEscape(d.freeTitle)))
	return s
}

// page returns what a list of staff holds, over all of its pages.
func page(t testing.TB, ada *blackbox.Person, path string) []map[string]any {
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
