package e2e_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/internal/apikey"
	"novelgate/internal/testdb"
)

// class is who a route is for. docs/security.md: "Who may do what".
type class string

const (
	forAll      class = "public"  // no key is asked for
	forPartners class = "partner" // a disabled one excepted
	forStaff    class = "staff"
	forAuditors class = "audit" // of auditors, and of staff
)

// routeClasses says of every route of docs/openapi.yaml who it is for, and gives it a valid body. A route that is
// missing fails TestEveryRouteHasAClass.
var routeClasses = map[string]struct {
	class class
	body  func(*desk) Fields // nil for none
}{
	"GET /healthz":      {forAll, nil},
	"GET /readyz":       {forAll, nil},
	"GET /openapi.yaml": {forAll, nil},
	"GET /docs":         {forAll, nil},

	"GET /api/activity":                 {forAll, nil},
	"GET /api/novels":                   {forAll, nil},
	"GET /api/novels/{slug}":            {forAll, nil},
	"GET /api/novels/{slug}/discussion": {forAll, nil},
	"GET /api/posts/{postId}":           {forAll, nil},
	"GET /":                             {forAll, nil},
	"GET /novels":                       {forAll, nil},
	"GET /novels/{slug}":                {forAll, nil},
	"GET /novels/{slug}/cover":          {forAll, nil},
	"GET /novels/{slug}/discussion":     {forAll, nil},
	"GET /novels/{slug}/feed.atom":      {forAll, nil},
	"GET /feed.atom":                    {forAll, nil},
	"GET /sitemap.xml":                  {forAll, nil},
	"GET /sitemaps/{part}":              {forAll, nil},
	"GET /robots.txt":                   {forAll, nil},
	"GET /accent.css":                   {forAll, nil},
	"GET /ledger/checkpoint":            {forAll, nil},
	"GET /ledger/key":                   {forAll, nil},
	"GET /ledger/proof":                 {forAll, nil},
	"GET /ledger/tile/{tile}":           {forAll, nil},

	"POST /api/integrations/novels": {
		forPartners, func(*desk) Fields { return Fields{"novel": Unique("Any")} },
	},
	"POST /api/integrations/posts": {forPartners, func(d *desk) Fields { return Comment(d.hosted) }},
	"POST /api/integrations/resolve": {
		forPartners, func(d *desk) Fields { return Fields{"novel": d.title} },
	},

	"POST /api/integrations/imports":                     {forPartners, nil},
	"GET /api/integrations/imports":                      {forPartners, nil},
	"GET /api/integrations/imports/{importId}":           {forPartners, nil},
	"DELETE /api/integrations/imports/{importId}":        {forPartners, nil},
	"POST /api/integrations/imports/{importId}/complete": {forPartners, nil},
	"GET /api/integrations/imports/{importId}/results":   {forPartners, nil},
	"GET /api/integrations/imports/{importId}/failed":    {forPartners, nil},
	"PUT /api/integrations/imports/{importId}/lines":     {forPartners, func(*desk) Fields { return Fields{} }},

	"GET /api/integrations/changes": {forPartners, nil},

	"POST /api/integrations/webhooks": {
		forPartners, func(*desk) Fields { return Fields{"url": nowhere + Key()} },
	},
	"GET /api/integrations/webhooks":             {forPartners, nil},
	"GET /api/integrations/webhooks/{webhookId}": {forPartners, nil},
	"PATCH /api/integrations/webhooks/{webhookId}": {
		forPartners, func(*desk) Fields { return Fields{"enabled": true} },
	},
	"DELETE /api/integrations/webhooks/{webhookId}":       {forPartners, nil},
	"POST /api/integrations/webhooks/{webhookId}/rotate":  {forPartners, func(*desk) Fields { return Fields{} }},
	"POST /api/integrations/webhooks/{webhookId}/test":    {forPartners, nil},
	"GET /api/integrations/webhooks/{webhookId}/attempts": {forPartners, nil},
	"POST /api/integrations/webhooks/{webhookId}/replay": {
		forPartners, func(*desk) Fields { return Fields{"since": "2026-01-01T00:00:00Z"} },
	},
	"GET /api/admin/webhooks":                      {forStaff, nil},
	"PUT /api/admin/webhooks/{webhookId}/disabled": {forStaff, because},
	"PUT /api/admin/webhooks/{webhookId}/enabled":  {forStaff, because},

	"GET /api/integrations/me":                          {forPartners, nil},
	"GET /api/integrations/deliveries/{idempotencyKey}": {forPartners, nil},
	"POST /api/integrations/deliveries/reconcile": {forPartners, func(d *desk) Fields {
		return Fields{"operation": "novels", "idempotencyKeys": []string{d.delivered}}
	}},

	"GET /api/events":                          {forAuditors, nil},
	"GET /api/events/{logIndex}":               {forAuditors, nil},
	"GET /api/streams/{streamType}/{streamId}": {forAuditors, nil},
	"GET /api/access-log":                      {forAuditors, nil},

	"GET /api/admin/integrations": {forStaff, nil},
	"POST /api/admin/integrations": {
		forStaff, func(d *desk) Fields { return Fields{"name": d.freeName} },
	},
	"GET /api/admin/integrations/{integrationId}": {forStaff, nil},
	"PATCH /api/admin/integrations/{integrationId}": {
		forStaff, func(*desk) Fields { return Fields{"postsPerMinute": 7} },
	},
	"GET /api/admin/integrations/{integrationId}/keys": {forStaff, nil},
	"POST /api/admin/integrations/{integrationId}/keys": {
		forStaff, func(*desk) Fields { return Fields{"expiresInSeconds": 3600} },
	},
	"DELETE /api/admin/keys/{keyId}": {forStaff, nil},
	"POST /api/admin/keys/{keyId}/rotate": {
		forStaff, func(*desk) Fields { return Fields{"overlapSeconds": 3600} },
	},
	"GET /api/admin/novels": {forStaff, nil},
	"POST /api/admin/novels": {
		forStaff, func(d *desk) Fields { return Fields{"novel": d.freeTitle} },
	},
	"POST /api/admin/novels/reject": {
		forStaff, func(d *desk) Fields { return Fields{"novel": d.freeTitle, "reason": "test"} },
	},
	"PATCH /api/admin/novels/{novelId}": {
		forStaff, func(*desk) Fields { return Fields{"author": "Test"} },
	},
	"GET /api/admin/novels/{novelId}":                               {forStaff, nil},
	"POST /api/admin/novels/{novelId}/approve":                      {forStaff, because},
	"POST /api/admin/novels/{novelId}/reject":                       {forStaff, because},
	"POST /api/admin/novels/{novelId}/publish":                      {forStaff, because},
	"GET /api/admin/posts/{postId}":                                 {forStaff, nil},
	"POST /api/admin/posts/{postId}/hide":                           {forStaff, because},
	"POST /api/admin/posts/{postId}/restore":                        {forStaff, because},
	"GET /api/admin/integrations/{integrationId}/authors":           {forStaff, nil},
	"GET /api/admin/integrations/{integrationId}/authors/{uuid}":    {forStaff, nil},
	"DELETE /api/admin/integrations/{integrationId}/authors/{uuid}": {forStaff, nil},
	"PUT /api/admin/integrations/{integrationId}/authors/{uuid}/member": {
		forStaff, func(*desk) Fields { return Fields{"memberId": "member-1"} },
	},
	"DELETE /api/admin/integrations/{integrationId}/authors/{uuid}/member":      {forStaff, nil},
	"POST /api/admin/integrations/{integrationId}/authors/{uuid}/block":         {forStaff, because},
	"POST /api/admin/integrations/{integrationId}/authors/{uuid}/unblock":       {forStaff, because},
	"POST /api/admin/integrations/{integrationId}/authors/{uuid}/hide-posts":    {forStaff, because},
	"POST /api/admin/integrations/{integrationId}/authors/{uuid}/restore-posts": {forStaff, because},
}

func because(*desk) Fields { return Fields{"reason": "test"} }

// refusal is an error's status and code; none when the request is let through.
type refusal struct {
	status int
	code   string
}

var (
	welcome      = refusal{}
	unauthorized = refusal{http.StatusUnauthorized, "unauthorized"}
	forbidden    = refusal{http.StatusForbidden, "forbidden"}
	incapable    = refusal{http.StatusForbidden, "capability_disabled"}
)

// valid is what the routes of a class answer to keys that open something.
var valid = map[class]struct{ partner, disabled, staff, auditor refusal }{
	forAll:      {welcome, welcome, welcome, welcome},
	forPartners: {welcome, incapable, unauthorized, unauthorized},
	forStaff:    {forbidden, forbidden, welcome, forbidden},
	forAuditors: {forbidden, forbidden, welcome, welcome},
}

// strangers are what a key that opens nothing may look like, by name.
type strangers map[string]string

func newStrangers(t *testing.T, ada *Person) strangers {
	t.Helper()
	s := ada.Service
	revokedStaff, revokedAuditor := s.NewStaff(t), s.NewAuditor(t)
	revokedStaff.Revoke(t)
	revokedAuditor.Revoke(t)
	expiredStaff, expiredAuditor := s.NewStaff(t, "--expires-in", "1s"), s.NewAuditor(t, "--expires-in", "1s")
	revokedPartner, expiredPartner := s.NewPartner(t), s.NewPartner(t)
	s.RevokeKey(t, revokedPartner.KeyID)
	short := s.IssueKey(t, expiredPartner.IntegrationID, "--expires-in", "1s")
	for _, key := range []IssuedKey{
		short, {ExpiresAt: expiredStaff.ExpiresAt}, {ExpiresAt: expiredAuditor.ExpiresAt},
	} {
		expired(t, key.ExpiresAt)
	}
	return strangers{
		"no key": "", "no key's form": "swordfish", "wrong checksum": tamper(ada.APIKey),
		"unknown partner": newKey(t, apikey.Partner), "unknown staff": newKey(t, apikey.Staff),
		"unknown auditor": newKey(t, apikey.Auditor),
		"revoked partner": revokedPartner.APIKey, "revoked staff": revokedStaff.APIKey,
		"revoked auditor": revokedAuditor.APIKey,
		"expired partner": short.APIKey, "expired staff": expiredStaff.APIKey, "expired auditor": expiredAuditor.APIKey,
	}
}

func TestEveryRouteHasAClass(t *testing.T) {
	t.Parallel()
	var documented, expected []string
	for _, route := range Routes(t) {
		documented = append(documented, route.String())
		secured := route.Operation.Security != nil && len(*route.Operation.Security) > 0
		if known, ok := routeClasses[route.String()]; ok && secured == (known.class == forAll) {
			t.Errorf("%s is %s here, and not in docs/openapi.yaml", route, known.class)
		}
	}
	for route := range routeClasses {
		expected = append(expected, route)
	}
	slices.Sort(documented)
	slices.Sort(expected)
	if diff := cmp.Diff(documented, expected); diff != "" {
		t.Errorf("routes (-docs/openapi.yaml +expectations): add the route to routeClasses\n%s", diff)
	}
}

// TestPrincipals sends every route with every kind of key, first with those that are refused, which must change
// nothing.
func TestPrincipals(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	ada, auditor := s.NewStaff(t), s.NewAuditor(t)
	disabled := newDesk(t, ada)
	s.Integration(t, "disable", disabled.partner.IntegrationID)
	nobody := newStrangers(t, ada)
	for _, route := range Routes(t) {
		known, ok := routeClasses[route.String()]
		if !ok {
			continue // TestEveryRouteHasAClass fails
		}
		t.Run(strings.ReplaceAll(route.String(), "/", "·"), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, ada)
			mine, theirs := d.request(t, route, known.body), disabled.request(t, route, known.body)
			want := valid[known.class]
			attempts := []attempt{
				{"auditor", mine, auditor.APIKey, want.auditor},
				{"disabled partner", theirs, disabled.partner.APIKey, want.disabled},
				{"partner", mine, d.partner.APIKey, want.partner},
				{"staff", mine, ada.APIKey, want.staff},
			}
			for name, key := range nobody {
				refused := unauthorized
				if known.class == forAll {
					refused = welcome
				}
				attempts = append(attempts, attempt{name, mine, key, refused})
			}
			before := d.standing(t)
			for _, a := range attempts {
				if a.want != welcome {
					a.send(t, s)
				}
			}
			if diff := cmp.Diff(before, d.standing(t)); diff != "" {
				t.Errorf("refused requests have changed something (-before +after)\n%s", diff)
			}
			for _, a := range attempts {
				if a.want == welcome {
					a.send(t, s)
				}
			}
		})
	}
}

// attempt is a request of a principal.
type attempt struct {
	who     string
	request Request
	key     string
	want    refusal
}

func (a attempt) send(t *testing.T, s *Service) {
	t.Helper()
	a.request.Bearer = a.key
	response := s.Send(t, a.request)
	if a.want == welcome {
		testdb.Eventually(t, a.who+" is answered", func() bool { // erasures wait for the ledger
			if response.Status == http.StatusServiceUnavailable {
				response = s.Send(t, a.request)
			}
			return response.Status != http.StatusServiceUnavailable
		})
		if response.Status >= http.StatusMultipleChoices {
			t.Errorf("%s: status %d, want success\n%s", a.who, response.Status, response.Body)
		}
		response.WantReplayed(t, false, false)
		return
	}
	var problem Problem
	response.WantJSON(t, response.Status, &problem)
	if got := (refusal{response.Status, problem.Code}); got != a.want {
		t.Errorf("%s: %+v, want %+v\n%s", a.who, got, a.want, response.Body)
	}
	if a.key != "" && strings.Contains(string(response.Body), a.key) {
		t.Errorf("%s: the answer repeats the key", a.who)
	}
}

// desk is what a request of any route can be about: an integration under review with a key and a pending novel, a novel
// of the host's with a comment and a hidden one, an author whom staff have linked and one whom they have blocked with
// all comments hidden, and two names that nothing has yet.
type desk struct {
	ada       *Person
	partner   *Partner
	novelID   string
	importID  string
	webhookID string
	title     string // of the novel
	hosted    string // title of the host's
	hostID    string // of the host's
	slug      string // of the host's

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
	d.partner = ada.Service.NewImporter(t, Fields{"review": true})
	d.importID = d.partner.OpenImport(t).ImportID
	d.webhookID = d.partner.NewWebhook(t, nowhere).WebhookID
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
		"{uuid}", d.linked, "{importId}", d.importID, "{webhookId}", d.webhookID,
		"{streamType}", "integration", "{streamId}", d.partner.IntegrationID, "{logIndex}", "0",
		"{slug}", d.slug, "{tile}", "entries/000.p/1", "{part}", "7",
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
	case "PUT /api/integrations/imports/{importId}/lines":
		return route.Path + "?offset=0"
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
		if route.Method == http.MethodPut && strings.HasSuffix(route.Path, "/lines") {
			r.ContentType = "application/x-ndjson"
		}
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
	Import             map[string]any
	Webhooks           struct{ Items []map[string]any }
}

// followed are the members of an author that come from a table which follows the log.
var followed = []string{"displayName", "firstSeenAt"}

func (d *desk) standing(t testing.TB) standing {
	t.Helper()
	var s standing
	d.partner.Inquire(t, ImportsPath+"/"+d.importID).WantJSON(t, 200, &s.Import)
	d.ada.Get(t, "/api/admin/webhooks?integration="+d.partner.IntegrationID).WantJSON(t, 200, &s.Webhooks)
	for _, webhook := range s.Webhooks.Items {
		for _, member := range []string{"waiting", "retrying", "failingSince"} { // the service is at work
			delete(webhook, member)
		}
	}
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
