package blackbox_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/internal/apikey"
	"novelgate/internal/blackbox"
	"novelgate/internal/testdb"
)

// class is who a route is for. docs/security.md: "Who may do what".
type class string

const (
	public  class = "public"  // no key is asked for
	partner class = "partner" // a disabled one excepted
	staff   class = "staff"
	audit   class = "audit" // of auditors, and of staff
)

// routeClasses says of every route of docs/openapi.yaml who it is for, and gives it a valid body. A route that is
// missing fails TestEveryRouteHasAClass.
var routeClasses = map[string]struct {
	class class
	body  func(*desk) blackbox.Fields // nil for none
}{
	"GET /healthz":      {public, nil},
	"GET /readyz":       {public, nil},
	"GET /openapi.yaml": {public, nil},

	"GET /api/novels":                   {public, nil},
	"GET /api/novels/{slug}":            {public, nil},
	"GET /api/novels/{slug}/discussion": {public, nil},
	"GET /api/posts/{postId}":           {public, nil},
	"GET /":                             {public, nil},
	"GET /novels":                       {public, nil},
	"GET /novels/{slug}":                {public, nil},
	"GET /novels/{slug}/discussion":     {public, nil},
	"GET /ledger/checkpoint":            {public, nil},
	"GET /ledger/key":                   {public, nil},
	"GET /ledger/proof":                 {public, nil},
	"GET /ledger/tile/{tile}":           {public, nil},

	"POST /api/integrations/novels": {
		partner, func(*desk) blackbox.Fields { return blackbox.Fields{"novel": blackbox.Unique("Any")} },
	},
	"POST /api/integrations/posts": {partner, func(d *desk) blackbox.Fields { return blackbox.Comment(d.hosted) }},
	"POST /api/integrations/resolve": {
		partner, func(d *desk) blackbox.Fields { return blackbox.Fields{"novel": d.title} },
	},

	"GET /api/integrations/me":                          {partner, nil},
	"GET /api/integrations/deliveries/{idempotencyKey}": {partner, nil},
	"POST /api/integrations/deliveries/reconcile": {partner, func(d *desk) blackbox.Fields {
		return blackbox.Fields{"operation": "novels", "idempotencyKeys": []string{d.delivered}}
	}},

	"GET /api/events":                          {audit, nil},
	"GET /api/events/{logIndex}":               {audit, nil},
	"GET /api/streams/{streamType}/{streamId}": {audit, nil},
	"GET /api/access-log":                      {audit, nil},

	"GET /api/admin/integrations": {staff, nil},
	"POST /api/admin/integrations": {
		staff, func(d *desk) blackbox.Fields { return blackbox.Fields{"name": d.freeName} },
	},
	"GET /api/admin/integrations/{integrationId}": {staff, nil},
	"PATCH /api/admin/integrations/{integrationId}": {
		staff, func(*desk) blackbox.Fields { return blackbox.Fields{"postsPerMinute": 7} },
	},
	"GET /api/admin/integrations/{integrationId}/keys": {staff, nil},
	"POST /api/admin/integrations/{integrationId}/keys": {
		staff, func(*desk) blackbox.Fields { return blackbox.Fields{"expiresInSeconds": 3600} },
	},
	"DELETE /api/admin/keys/{keyId}": {staff, nil},
	"POST /api/admin/keys/{keyId}/rotate": {
		staff, func(*desk) blackbox.Fields { return blackbox.Fields{"overlapSeconds": 3600} },
	},
	"GET /api/admin/novels": {staff, nil},
	"POST /api/admin/novels": {
		staff, func(d *desk) blackbox.Fields { return blackbox.Fields{"novel": d.freeTitle} },
	},
	"POST /api/admin/novels/reject": {
		staff, func(d *desk) blackbox.Fields { return blackbox.Fields{"novel": d.freeTitle, "reason": "test"} },
	},
	"PATCH /api/admin/novels/{novelId}": {
		staff, func(*desk) blackbox.Fields { return blackbox.Fields{"author": "Test"} },
	},
	"GET /api/admin/novels/{novelId}":                               {staff, nil},
	"POST /api/admin/novels/{novelId}/approve":                      {staff, because},
	"POST /api/admin/novels/{novelId}/reject":                       {staff, because},
	"POST /api/admin/novels/{novelId}/publish":                      {staff, because},
	"GET /api/admin/posts/{postId}":                                 {staff, nil},
	"POST /api/admin/posts/{postId}/hide":                           {staff, because},
	"POST /api/admin/posts/{postId}/restore":                        {staff, because},
	"GET /api/admin/integrations/{integrationId}/authors":           {staff, nil},
	"GET /api/admin/integrations/{integrationId}/authors/{uuid}":    {staff, nil},
	"DELETE /api/admin/integrations/{integrationId}/authors/{uuid}": {staff, nil},
	"PUT /api/admin/integrations/{integrationId}/authors/{uuid}/member": {
		staff, func(*desk) blackbox.Fields { return blackbox.Fields{"memberId": "member-1"} },
	},
	"DELETE /api/admin/integrations/{integrationId}/authors/{uuid}/member":      {staff, nil},
	"POST /api/admin/integrations/{integrationId}/authors/{uuid}/block":         {staff, because},
	"POST /api/admin/integrations/{integrationId}/authors/{uuid}/unblock":       {staff, because},
	"POST /api/admin/integrations/{integrationId}/authors/{uuid}/hide-posts":    {staff, because},
	"POST /api/admin/integrations/{integrationId}/authors/{uuid}/restore-posts": {staff, because},
}

func because(*desk) blackbox.Fields { return blackbox.Fields{"reason": "test"} }

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
	public:  {welcome, welcome, welcome, welcome},
	partner: {welcome, incapable, unauthorized, unauthorized},
	staff:   {forbidden, forbidden, welcome, forbidden},
	audit:   {forbidden, forbidden, welcome, welcome},
}

// strangers are what a key that opens nothing may look like, by name.
type strangers map[string]string

func newStrangers(t *testing.T, ada *blackbox.Person) strangers {
	t.Helper()
	s := ada.Service
	revokedStaff, revokedAuditor := s.NewStaff(t), s.NewAuditor(t)
	revokedStaff.Revoke(t)
	revokedAuditor.Revoke(t)
	expiredStaff, expiredAuditor := s.NewStaff(t, "--expires-in", "1s"), s.NewAuditor(t, "--expires-in", "1s")
	revokedPartner, expiredPartner := s.NewPartner(t), s.NewPartner(t)
	s.RevokeKey(t, revokedPartner.KeyID)
	short := s.IssueKey(t, expiredPartner.IntegrationID, "--expires-in", "1s")
	for _, key := range []blackbox.IssuedKey{
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
	for _, route := range blackbox.Routes(t) {
		documented = append(documented, route.String())
		secured := route.Operation.Security != nil && len(*route.Operation.Security) > 0
		if known, ok := routeClasses[route.String()]; ok && secured == (known.class == public) {
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
	s := blackbox.Shared(t)
	ada, auditor := s.NewStaff(t), s.NewAuditor(t)
	disabled := newDesk(t, ada)
	s.Integration(t, "disable", disabled.partner.IntegrationID)
	nobody := newStrangers(t, ada)
	for _, route := range blackbox.Routes(t) {
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
				if known.class == public {
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
	request blackbox.Request
	key     string
	want    refusal
}

func (a attempt) send(t *testing.T, s *blackbox.Service) {
	t.Helper()
	a.request.Bearer = a.key
	response := s.Send(t, a.request)
	if a.want == welcome {
		blackbox.Eventually(t, testdb.UntilSettled, a.who+" is answered", func() bool { // erasures wait for the ledger
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
	var problem blackbox.Problem
	response.WantJSON(t, response.Status, &problem)
	if got := (refusal{response.Status, problem.Code}); got != a.want {
		t.Errorf("%s: %+v, want %+v\n%s", a.who, got, a.want, response.Body)
	}
	if a.key != "" && strings.Contains(string(response.Body), a.key) {
		t.Errorf("%s: the answer repeats the key", a.who)
	}
}
