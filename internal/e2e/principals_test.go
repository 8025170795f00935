package e2e_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

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

	"GET /api/novels":                   {forAll, nil},
	"GET /api/novels/{slug}":            {forAll, nil},
	"GET /api/novels/{slug}/discussion": {forAll, nil},
	"GET /api/posts/{postId}":           {forAll, nil},
	"GET /":                             {forAll, nil},
	"GET /novels":                       {forAll, nil},
	"GET /novels/{slug}":                {forAll, nil},
	"GET /novels/{slug}/discussion":     {forAll, nil},
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
