package commands_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/commands/ratelimit"
	"novelgate/internal/auth"
)

const (
	mePath        = "/api/integrations/me"
	deliveryPath  = "/api/integrations/deliveries/key-1?operation=novels"
	reconcilePath = "/api/integrations/deliveries/reconcile"
	resolvePath   = "/api/integrations/resolve"
)

// inquiries has one request to each query route.
var inquiries = []struct{ method, path, body string }{
	{http.MethodGet, mePath, ""},
	{http.MethodGet, deliveryPath, ""},
	{http.MethodPost, reconcilePath, `{"operation":"novels","idempotencyKeys":["k"]}`},
	{http.MethodPost, resolvePath, novelBody},
}

func TestMe(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*auth.Integration)
		want   map[string]any
	}{
		"all capabilities": {
			func(*auth.Integration) {},
			map[string]any{"enabled": true, "review": false, "capabilities": []any{"novels", "posts", "import"}},
		},
		"under review, posts alone": {
			func(p *auth.Integration) { p.Review, p.CanCreateNovels, p.CanImport = true, false, false },
			map[string]any{"enabled": true, "review": true, "capabilities": []any{"posts"}},
		},
		"nothing": {
			func(p *auth.Integration) {
				p.CanPost, p.CanCreateNovels, p.CanImport = false, false, false
				p.KeyExpiresAt = new(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC))
			},
			map[string]any{"enabled": true, "review": false, "capabilities": []any{}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			f.integration.Name, f.integration.AuthorKey = "Partner", "author key"
			f.status = ratelimit.Decision{Remaining: 3, Reset: 1500 * time.Millisecond}
			tc.change(&f.integration)
			tc.want["integrationId"], tc.want["name"] = f.integration.IntegrationID.String(), "Partner"
			tc.want["authorKey"] = "author key"
			key := map[string]any{"keyId": f.integration.KeyID.String(), "expiresAt": nil}
			if at := f.integration.KeyExpiresAt; at != nil {
				key["expiresAt"] = at.Format(time.RFC3339)
			}
			tc.want["key"] = key
			tc.want["limits"] = map[string]any{
				"posts":  map[string]any{"perMinute": 60., "remaining": 3., "resetSeconds": 2.},
				"novels": map[string]any{"perMinute": 5., "remaining": 3., "resetSeconds": 2.},
				"lines":  map[string]any{"perMinute": 70., "remaining": 3., "resetSeconds": 2.},
			}
			handler := routes(newAPI(f, time.Minute, time.Now))
			got := send(t, handler, http.MethodGet, mePath, "", "Content-Type", "")
			if diff := cmp.Diff(tc.want, got.body); got.status != http.StatusOK || diff != "" {
				t.Errorf("status %d (-want +got)\n%s", got.status, diff)
			}
			if limit := got.header.Get("RateLimit"); limit != `"posts";r=3;t=2, "novels";r=3;t=2, "lines";r=3;t=2` {
				t.Errorf("RateLimit: %s", limit)
			}
			if policy := got.header.Get("RateLimit-Policy"); policy !=
				`"posts";q=60;w=60, "novels";q=5;w=60, "lines";q=70;w=60` {
				t.Errorf("RateLimit-Policy: %s", policy)
			}
		})
	}
}

// TestInquiriesRefused tests refusals before any read.
func TestInquiriesRefused(t *testing.T) {
	t.Parallel()
	keys := func(list string) string { return `{"operation":"posts","idempotencyKeys":` + list + `}` }
	const deliveries = "/api/integrations/deliveries/"
	for name, tc := range map[string]struct {
		method, path, body string
		status             int
		code, field        string
		header             []string
	}{
		"delivery without operation": {"GET", deliveries + "k", "", 400, "invalid_request", "operation", nil},
		"delivery of unknown operation": {
			"GET", deliveries + "k?operation=Novels", "", 400, "invalid_request", "operation", nil,
		},
		"delivery of two operations": {
			"GET", deliveries + "k?operation=novels&operation=posts", "", 400, "invalid_request", "operation", nil,
		},
		"delivery of a key with space": {
			"GET", deliveries + "a%20b?operation=posts", "", 400, "invalid_idempotency_key", "", nil,
		},
		"delivery without a key": {
			"GET", deliveries + "?operation=posts", "", 400, "invalid_idempotency_key", "", nil,
		},
		"delivery, posted": {"POST", deliveries + "k?operation=posts", "", 405, "method_not_allowed", "", nil},
		"me, posted":       {"POST", mePath, "", 405, "method_not_allowed", "", nil},

		"reconcile other case": {
			"POST", reconcilePath, `{"operation":"posts","idempotencykeys":["k"]}`, 400, "invalid_request", "idempotencykeys",
			nil,
		},
		"reconcile without operation": {
			"POST", reconcilePath, `{"idempotencyKeys":["k"]}`, 400, "invalid_request", "operation", nil,
		},
		"reconcile unknown operation": {
			"POST", reconcilePath, `{"operation":"post","idempotencyKeys":["k"]}`, 400, "invalid_request", "operation", nil,
		},
		"reconcile without keys": {
			"POST", reconcilePath, `{"operation":"posts"}`, 400, "invalid_request", "idempotencyKeys", nil,
		},
		"reconcile no keys": {"POST", reconcilePath, keys("[]"), 400, "invalid_request", "idempotencyKeys", nil},
		"reconcile too many keys": {
			"POST", reconcilePath, keys(`["k"` + strings.Repeat(`,"k"`, 1000) + "]"), 400, "invalid_request", "idempotencyKeys",
			nil,
		},
		"reconcile an empty key": {
			"POST", reconcilePath, keys(`["a","b","c",""]`), 400, "invalid_request", "idempotencyKeys[3]", nil,
		},
		"reconcile a key with NUL": {
			"POST", reconcilePath, keys(`["a\u0000"]`), 400, "invalid_request", "idempotencyKeys[0]", nil,
		},

		"resolve without a title": {"POST", resolvePath, "{}", 400, "invalid_request", "novel", nil},
		"resolve a bad field": {
			"POST", resolvePath, `{"novel":"A","genres":[1]}`, 400, "invalid_request", "genres[0]", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handler, _ := serve(t, newFake())
			got := send(t, handler, tc.method, tc.path, tc.body, tc.header...)
			field, _ := got.body["field"].(string)
			if got.status != tc.status || got.body["code"] != tc.code || field != tc.field {
				t.Errorf("answer: %+v", got)
			}
			if got.header.Get("Content-Type") != "application/problem+json" ||
				got.body["requestId"] != got.header.Get("X-Request-Id") {
				t.Errorf("answer: %+v", got)
			}
			detail := fmt.Sprint(got.body["detail"])
			if strings.Contains(detail, "header") {
				t.Errorf("detail speaks of a header: %s", detail)
			}
			if strings.Contains(tc.body, `"post"`) && !strings.Contains(detail, `got "post"`) {
				t.Errorf("detail does not quote the operation: %s", detail)
			}
		})
	}
}

func TestResolveRefusesWhomAnUpsertRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*auth.Integration){
		"disabled":           func(p *auth.Integration) { p.Enabled = false },
		"without capability": func(p *auth.Integration) { p.CanCreateNovels = false },
	} {
		f := newFake()
		change(&f.integration)
		handler, _ := serve(t, f)
		upsert := send(t, handler, http.MethodPost, novelPath, novelBody)
		for _, inquiry := range inquiries {
			if inquiry.path != resolvePath && f.integration.Enabled {
				continue
			}
			got := send(t, handler, inquiry.method, inquiry.path, inquiry.body)
			if got.status != http.StatusForbidden || got.body["code"] != upsert.body["code"] ||
				got.body["detail"] != upsert.body["detail"] {
				t.Errorf("%s, %s: %+v, an upsert %+v", name, inquiry.path, got, upsert)
			}
		}
	}
}
