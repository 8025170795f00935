package e2e_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/internal/auth"
	"novelgate/internal/testdb"
)

// class says which principals may call a route, as the table "Who may do what" of docs/security.md has it.
type class string

const (
	forAll      class = "public" // without a key
	forPartners class = "partner"
	forStaff    class = "staff"
	forAuditors class = "audit" // auditors and staff
)

// routeClasses has the class of every route of docs/openapi.yaml, and a valid body for it. A missing route fails
// TestEveryRouteHasAClass.
var routeClasses = map[string]struct {
	class class
	body  func(*fixture) Fields // nil: no body
}{
	"GET /healthz":      {forAll, nil},
	"GET /readyz":       {forAll, nil},
	"GET /openapi.yaml": {forAll, nil},
	"GET /docs":         {forAll, nil},
	"GET /docs/{file}":  {forAll, nil},

	"GET /api/activity":                 {forAll, nil},
	"GET /api/novels":                   {forAll, nil},
	"GET /api/novels/{slug}":            {forAll, nil},
	"GET /api/novels/{slug}/discussion": {forAll, nil},
	"GET /api/posts/{postId}":           {forAll, nil},
	"GET /":                             {forAll, nil},
	"GET /novels":                       {forAll, nil},
	"GET /novels/{slug}":                {forAll, nil},
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

	"POST /api/integrations/novels":  {forPartners, func(*fixture) Fields { return Fields{"novel": Unique("Any")} }},
	"POST /api/integrations/posts":   {forPartners, func(f *fixture) Fields { return Comment(f.hostTitle) }},
	"POST /api/integrations/resolve": {forPartners, func(f *fixture) Fields { return Fields{"novel": f.title} }},

	"POST /api/integrations/bulk": {forPartners, constant(Fields{})},

	"GET /api/integrations/changes": {forPartners, nil},

	"POST /api/integrations/webhooks": {
		forPartners, func(*fixture) Fields { return Fields{"url": nowhere + Key()} },
	},
	"GET /api/integrations/webhooks":                     {forPartners, nil},
	"GET /api/integrations/webhooks/{webhookId}":         {forPartners, nil},
	"PATCH /api/integrations/webhooks/{webhookId}":       {forPartners, constant(Fields{"enabled": true})},
	"DELETE /api/integrations/webhooks/{webhookId}":      {forPartners, nil},
	"POST /api/integrations/webhooks/{webhookId}/rotate": {forPartners, constant(Fields{})},
	"POST /api/integrations/webhooks/{webhookId}/test":   {forPartners, nil},
	"GET /api/admin/webhooks":                            {forStaff, nil},
	"PUT /api/admin/webhooks/{webhookId}/disabled":       {forStaff, withReason},
	"PUT /api/admin/webhooks/{webhookId}/enabled":        {forStaff, withReason},

	"GET /api/integrations/me":                          {forPartners, nil},
	"GET /api/integrations/deliveries/{idempotencyKey}": {forPartners, nil},
	"POST /api/integrations/deliveries/reconcile": {forPartners, func(f *fixture) Fields {
		return Fields{"operation": "novels", "idempotencyKeys": []string{f.delivered}}
	}},

	"GET /api/events":                          {forAuditors, nil},
	"GET /api/events/{logIndex}":               {forAuditors, nil},
	"GET /api/streams/{streamType}/{streamId}": {forAuditors, nil},
	"GET /api/access-log":                      {forAuditors, nil},

	"GET /api/admin/integrations": {forStaff, nil},
	"POST /api/admin/integrations": {
		forStaff, func(f *fixture) Fields { return Fields{"name": f.freeName} },
	},
	"GET /api/admin/integrations/{integrationId}":       {forStaff, nil},
	"PATCH /api/admin/integrations/{integrationId}":     {forStaff, constant(Fields{"postsPerMinute": 7})},
	"GET /api/admin/integrations/{integrationId}/keys":  {forStaff, nil},
	"POST /api/admin/integrations/{integrationId}/keys": {forStaff, constant(Fields{"expiresInSeconds": 3600})},
	"DELETE /api/admin/keys/{keyId}":                    {forStaff, nil},
	"POST /api/admin/keys/{keyId}/rotate":               {forStaff, constant(Fields{"overlapSeconds": 3600})},
	"GET /api/admin/novels":                             {forStaff, nil},
	"POST /api/admin/novels": {
		forStaff, func(f *fixture) Fields { return Fields{"novel": f.freeTitle} },
	},
	"POST /api/admin/novels/reject": {forStaff, func(f *fixture) Fields {
		return Fields{"novel": f.freeTitle, "reason": "test"}
	}},
	"PATCH /api/admin/novels/{novelId}":                             {forStaff, constant(Fields{"author": "Test"})},
	"GET /api/admin/novels/{novelId}":                               {forStaff, nil},
	"POST /api/admin/novels/{novelId}/approve":                      {forStaff, withReason},
	"POST /api/admin/novels/{novelId}/reject":                       {forStaff, withReason},
	"POST /api/admin/novels/{novelId}/publish":                      {forStaff, withReason},
	"GET /api/admin/posts/{postId}":                                 {forStaff, nil},
	"POST /api/admin/posts/{postId}/hide":                           {forStaff, withReason},
	"POST /api/admin/posts/{postId}/restore":                        {forStaff, withReason},
	"GET /api/admin/integrations/{integrationId}/authors":           {forStaff, nil},
	"GET /api/admin/integrations/{integrationId}/authors/{uuid}":    {forStaff, nil},
	"DELETE /api/admin/integrations/{integrationId}/authors/{uuid}": {forStaff, nil},
	"PUT /api/admin/integrations/{integrationId}/authors/{uuid}/member": {
		forStaff, constant(Fields{"memberId": "member-1"}),
	},
	"DELETE /api/admin/integrations/{integrationId}/authors/{uuid}/member":      {forStaff, nil},
	"POST /api/admin/integrations/{integrationId}/authors/{uuid}/block":         {forStaff, withReason},
	"POST /api/admin/integrations/{integrationId}/authors/{uuid}/unblock":       {forStaff, withReason},
	"POST /api/admin/integrations/{integrationId}/authors/{uuid}/hide-posts":    {forStaff, withReason},
	"POST /api/admin/integrations/{integrationId}/authors/{uuid}/restore-posts": {forStaff, withReason},
}

// constant returns a body that is the same for every fixture.
func constant(body Fields) func(*fixture) Fields { return func(*fixture) Fields { return body } }

var withReason = constant(Fields{"reason": "test"})

// refusal is the status and code of an error; zero: the request is allowed.
type refusal struct {
	status int
	code   string
}

var (
	allowed      = refusal{}
	unauthorized = refusal{http.StatusUnauthorized, "unauthorized"}
	forbidden    = refusal{http.StatusForbidden, "forbidden"}
	disabled     = refusal{http.StatusForbidden, "capability_disabled"}
)

// answers are those of the routes of a class to valid keys of each kind of principal.
var answers = map[class]struct{ partner, disabled, staff, auditor refusal }{
	forAll:      {allowed, allowed, allowed, allowed},
	forPartners: {allowed, disabled, unauthorized, unauthorized},
	forStaff:    {forbidden, forbidden, allowed, forbidden},
	forAuditors: {forbidden, forbidden, allowed, allowed},
}

// invalidKeys returns one key of each invalid kind, by a description of the kind.
func invalidKeys(t *testing.T, ada *Person) map[string]string {
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
	return map[string]string{
		"no key": "", "malformed": "swordfish", "wrong checksum": tamper(ada.APIKey),
		"unknown partner": newKey(t, auth.PartnerKey), "unknown staff": newKey(t, auth.StaffKey),
		"unknown auditor": newKey(t, auth.AuditorKey),
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

// TestPrincipals calls every route with every kind of key: first the requests that must be refused and change nothing,
// then the allowed ones.
func TestPrincipals(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	ada, auditor := s.NewStaff(t), s.NewAuditor(t)
	ofDisabled := newFixture(t, ada)
	s.Integration(t, "disable", ofDisabled.partner.IntegrationID)
	invalid := invalidKeys(t, ada)
	awaitSigned(t, s) // the ledger has what its routes are asked for
	for _, route := range Routes(t) {
		known, ok := routeClasses[route.String()]
		if !ok {
			continue // TestEveryRouteHasAClass fails
		}
		t.Run(strings.ReplaceAll(route.String(), "/", "·"), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, ada)
			request, theirs := f.request(t, route, known.body), ofDisabled.request(t, route, known.body)
			want := answers[known.class]
			attempts := []attempt{
				{"auditor", request, auditor.APIKey, want.auditor},
				{"disabled partner", theirs, ofDisabled.partner.APIKey, want.disabled},
				{"partner", request, f.partner.APIKey, want.partner},
				{"staff", request, ada.APIKey, want.staff},
			}
			for name, key := range invalid {
				refused := unauthorized
				if known.class == forAll {
					refused = allowed
				}
				attempts = append(attempts, attempt{name, request, key, refused})
			}
			before := f.state(t)
			for _, a := range attempts {
				if a.want != allowed {
					a.send(t, s)
				}
			}
			if diff := cmp.Diff(before, f.state(t)); diff != "" {
				t.Errorf("refused requests have changed the state (-before +after)\n%s", diff)
			}
			for _, a := range attempts {
				if a.want == allowed {
					a.send(t, s)
				}
			}
		})
	}
}

// attempt is a request with a key.
type attempt struct {
	name    string // of the kind of key
	request Request
	key     string
	want    refusal
}

func (a attempt) send(t *testing.T, s *Service) {
	t.Helper()
	a.request.Bearer = a.key
	response := s.Send(t, a.request)
	if a.want == allowed {
		testdb.Eventually(t, a.name+" is not answered with 503", func() bool { // an erasure waits for the ledger
			if response.Status == http.StatusServiceUnavailable {
				response = s.Send(t, a.request)
			}
			return response.Status != http.StatusServiceUnavailable
		})
		if response.Status >= http.StatusMultipleChoices {
			t.Errorf("%s: status %d, want success\n%s", a.name, response.Status, response.Body)
		}
		response.WantReplayed(t, false, false)
		return
	}
	var problem Problem
	response.WantJSON(t, response.Status, &problem)
	if got := (refusal{response.Status, problem.Code}); got != a.want {
		t.Errorf("%s: %+v, want %+v\n%s", a.name, got, a.want, response.Body)
	}
	if a.key != "" && strings.Contains(string(response.Body), a.key) {
		t.Errorf("%s: the answer repeats the key", a.name)
	}
}

// fixture has the objects that requests name: an integration under review with a pending novel and a webhook,
// and a novel of the host platform with two comments. The author of the first comment is linked to a member.
// The author of the second one is blocked, with all comments hidden, and the comment itself is hidden too.
type fixture struct {
	ada     *Person
	partner *Partner

	novelID, title, delivered string // of the pending novel; delivered is its Idempotency-Key
	webhookID                 string
	hostID, hostTitle, slug   string // of the novel of the host platform

	post, linked        string // first comment, and its author
	hiddenPost, blocked string // second comment, and its author

	freeName, freeTitle string // not used by any integration or novel
}

func newFixture(t testing.TB, ada *Person) *fixture {
	t.Helper()
	f := &fixture{
		ada: ada, title: Unique("Pending"), hostTitle: Unique("Hosted"), freeName: Unique("free"),
		freeTitle: Unique("Free"), delivered: "delivered/" + Key(),
	}
	f.partner = ada.Service.NewImporter(t, Fields{"review": true})
	f.webhookID = f.partner.NewWebhook(t, nowhere).WebhookID
	f.novelID = f.partner.Upsert(t, f.delivered, Fields{"novel": f.title}).WantNovel(t, 201).NovelID
	var hosted struct {
		NovelID string `json:"novelId"`
		Slug    string `json:"slug"`
	}
	ada.Post(t, "/api/admin/novels", Key(), Fields{"novel": f.hostTitle}).WantJSON(t, 201, &hosted)
	f.hostID, f.slug = hosted.NovelID, hosted.Slug
	f.linked, f.blocked = Unique("linked"), Unique("blocked")
	f.post, f.hiddenPost = f.comment(t, f.linked), f.comment(t, f.blocked)
	authors := "/api/admin/integrations/" + f.partner.IntegrationID + "/authors/"
	ada.Put(t, authors+f.linked+"/member", Fields{"memberId": "member"}).WantJSON(t, 200, &struct{}{})
	for _, path := range []string{
		authors + f.blocked + "/block", authors + f.blocked + "/hide-posts", "/api/admin/posts/" + f.hiddenPost + "/hide",
	} {
		ada.Post(t, path, Key(), withReason(f)).WantJSON(t, 200, &struct{}{})
	}
	return f
}

// comment imports a comment on the novel of the host platform and returns its id.
func (f *fixture) comment(t testing.TB, author string) string {
	t.Helper()
	return f.partner.Import(t, Key(), Comment(f.hostTitle).With(Fields{"uuid": author})).WantPost(t, 201).PostID
}

// path replaces the parameters of a documented path. An unknown parameter fails the test: add it here.
func (f *fixture) path(t testing.TB, documented string) string {
	t.Helper()
	filled := strings.NewReplacer(
		"{integrationId}", f.partner.IntegrationID, "{keyId}", f.partner.KeyID, "{novelId}", f.novelID, "{postId}", f.post,
		"{uuid}", f.linked, "{webhookId}", f.webhookID,
		"{streamType}", "integration", "{streamId}", f.partner.IntegrationID, "{logIndex}", "0",
		"{slug}", f.slug, "{tile}", "entries/000.p/1", "{part}", "0", "{file}", "client.zip",
		"{idempotencyKey}", url.PathEscape(f.delivered)+"?operation=novels",
	).Replace(documented)
	if strings.Contains(filled, "{") {
		t.Fatalf("%s has a parameter that the test has no value for", documented)
	}
	return filled
}

// template returns the path of a route, with query parameters and other objects where the route requires them.
func (f *fixture) template(route Route) string {
	switch route.String() {
	case "PATCH /api/admin/novels/{novelId}": // staff edit only novels of the host platform
		return strings.Replace(route.Path, "{novelId}", f.hostID, 1)
	case "GET /ledger/proof":
		return route.Path + "?logIndex=0"
	case "DELETE /api/admin/integrations/{integrationId}/authors/{uuid}":
		return route.Path + "?reason=test"
	case "POST /api/admin/posts/{postId}/restore":
		return strings.Replace(route.Path, "{postId}", f.hiddenPost, 1)
	case "POST /api/admin/integrations/{integrationId}/authors/{uuid}/unblock",
		"POST /api/admin/integrations/{integrationId}/authors/{uuid}/restore-posts":
		return strings.Replace(route.Path, "{uuid}", f.blocked, 1)
	default:
		return route.Path
	}
}

// request returns a valid request to the route, without an API key.
func (f *fixture) request(t testing.TB, route Route, body func(*fixture) Fields) Request {
	t.Helper()
	r := Request{Method: route.Method, Path: f.path(t, f.template(route))}
	if body != nil {
		r.Body, r.ContentType = body(f).JSON(t), "application/json"
		if strings.HasSuffix(route.Path, "/bulk") {
			r.ContentType = "application/x-ndjson"
		}
	}
	if route.NeedsKey() {
		r.Key = Key()
	}
	return r
}

// state is what the requests of TestPrincipals can change, as the routes show it.
type state struct {
	Integration, Novel map[string]any
	Keys               []map[string]any
	Integrations       int // with freeName
	Novels             int // with freeTitle
	Posts, Authors     []map[string]any
	Webhooks           struct{ Items []map[string]any }
}

// projectedMembers are the members of an author that an asynchronous projection provides.
var projectedMembers = []string{"displayName", "firstSeenAt"}

// state reads the state, without the members that change in the background.
func (f *fixture) state(t testing.TB) state {
	t.Helper()
	var s state
	f.ada.Get(t, "/api/admin/webhooks?integration="+f.partner.IntegrationID).WantJSON(t, 200, &s.Webhooks)
	for _, webhook := range s.Webhooks.Items {
		for _, member := range []string{"waiting", "failures", "failingSince", "nextAttemptAt", "attempts"} {
			delete(webhook, member)
		}
	}
	f.ada.Get(t, "/api/admin/integrations/"+f.partner.IntegrationID).WantJSON(t, 200, &s.Integration)
	f.ada.Get(t, "/api/admin/novels/"+f.novelID).WantJSON(t, 200, &s.Novel)
	s.Keys = allItems(t, f.ada, "/api/admin/integrations/"+f.partner.IntegrationID+"/keys")
	for _, key := range s.Keys {
		delete(key, "lastUsedAt")
	}
	for _, integration := range allItems(t, f.ada, "/api/admin/integrations") {
		if integration["name"] == f.freeName {
			s.Integrations++
		}
	}
	for _, post := range []string{f.post, f.hiddenPost} {
		var found map[string]any
		f.ada.Get(t, "/api/admin/posts/"+post).WantJSON(t, 200, &found)
		s.Posts = append(s.Posts, found)
	}
	for _, author := range []string{f.linked, f.blocked} {
		var found map[string]any
		f.ada.Get(t, "/api/admin/integrations/"+f.partner.IntegrationID+"/authors/"+author).WantJSON(t, 200, &found)
		for _, projected := range projectedMembers {
			delete(found, projected)
		}
		s.Authors = append(s.Authors, found)
	}
	s.Novels = len(allItems(t, f.ada, "/api/admin/novels?text="+url.QueryEscape(f.freeTitle)))
	return s
}

// allItems returns the items of all pages of a list.
func allItems(t testing.TB, ada *Person, path string) []map[string]any {
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
		ada.Get(t, path+separator+"limit=100"+cursor).WantJSON(t, http.StatusOK, &part)
		all = append(all, part.Items...)
		if part.NextCursor == nil {
			return all
		}
		cursor = "&cursor=" + url.QueryEscape(*part.NextCursor)
	}
}

// expired waits until a key has expired.
func expired(t testing.TB, expiresAt *time.Time) {
	t.Helper()
	if expiresAt == nil {
		t.Fatal("the key has no expiry")
	}
	time.Sleep(time.Until(*expiresAt) + 10*time.Millisecond)
}
