package commands_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5"

	"novelgate/commands"
	"novelgate/commands/access"
	"novelgate/commands/ratelimit"
	"novelgate/internal/database"
	"novelgate/internal/httpkit"
)

const (
	mePath        = "/api/integrations/me"
	deliveryPath  = "/api/integrations/deliveries/key-1?operation=novels"
	reconcilePath = "/api/integrations/deliveries/reconcile"
	resolvePath   = "/api/integrations/resolve"
)

// inquiries are one request to each route.
var inquiries = []struct{ method, path, body string }{
	{http.MethodGet, mePath, ""},
	{http.MethodGet, deliveryPath, ""},
	{http.MethodPost, reconcilePath, `{"operation":"novels","idempotencyKeys":["k"]}`},
	{http.MethodPost, resolvePath, novelBody},
}

func TestMe(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*access.Integration)
		want   map[string]any
	}{
		"all capabilities": {
			func(*access.Integration) {},
			map[string]any{"enabled": true, "review": false, "capabilities": []any{"novels", "posts"}},
		},
		"under review, posts alone": {
			func(p *access.Integration) { p.Review, p.CanCreateNovels = true, false },
			map[string]any{"enabled": true, "review": true, "capabilities": []any{"posts"}},
		},
		"nothing": {
			func(p *access.Integration) { p.CanPost, p.CanCreateNovels = false, false },
			map[string]any{"enabled": true, "review": false, "capabilities": []any{}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			f.integration.Name = "Partner"
			f.status = ratelimit.Decision{Remaining: 3, Reset: 1500 * time.Millisecond}
			tc.change(&f.integration)
			tc.want["integrationId"], tc.want["name"] = f.integration.IntegrationID.String(), "Partner"
			tc.want["limits"] = map[string]any{
				"posts":  map[string]any{"perMinute": 60., "remaining": 3., "resetSeconds": 2.},
				"novels": map[string]any{"perMinute": 5., "remaining": 3., "resetSeconds": 2.}, "novelUpdates": nil,
			}
			handler, _ := serve(t, f)
			got := send(t, handler, http.MethodGet, mePath, "", "Content-Type", "")
			if diff := cmp.Diff(tc.want, got.body); got.status != http.StatusOK || diff != "" {
				t.Errorf("status %d (-want +got)\n%s", got.status, diff)
			}
			if limit := got.header.Get("RateLimit"); limit != `"posts";r=3;t=2, "novels";r=3;t=2, "queries";r=199;t=1` {
				t.Errorf("RateLimit: %s", limit)
			}
			if policy := got.header.Get("RateLimit-Policy"); policy != `"posts";q=60;w=60, "novels";q=5;w=60, "queries";q=200;w=10` {
				t.Errorf("RateLimit-Policy: %s", policy)
			}
		})
	}
}

// TestInquiriesRefused has what is refused before anything is read.
func TestInquiriesRefused(t *testing.T) {
	t.Parallel()
	keys := func(list string) string { return `{"operation":"posts","idempotencyKeys":` + list + `}` }
	long := strings.Repeat("k", 256)
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
		"delivery of a long key": {
			"GET", deliveries + long + "?operation=posts", "", 400, "invalid_idempotency_key", "", nil,
		},
		"delivery of a key with space": {
			"GET", deliveries + "a%20b?operation=posts", "", 400, "invalid_idempotency_key", "", nil,
		},
		"delivery of a key with LF": {
			"GET", deliveries + "a%0Ab?operation=posts", "", 400, "invalid_idempotency_key", "", nil,
		},
		"delivery of a half-quoted key": {
			"GET", deliveries + "%22a?operation=posts", "", 400, "invalid_idempotency_key", "", nil,
		},
		"delivery without a key": {
			"GET", deliveries + "?operation=posts", "", 400, "invalid_idempotency_key", "", nil,
		},
		"delivery, posted": {"POST", deliveries + "k?operation=posts", "", 405, "method_not_allowed", "", nil},
		"me, posted":       {"POST", mePath, "", 405, "method_not_allowed", "", nil},

		"reconcile as text": {
			"POST", reconcilePath, keys(`["k"]`), 415, "unsupported_media_type", "", []string{"Content-Type", "text/plain"},
		},
		"reconcile too large": {
			"POST", reconcilePath, keys(`["k"]`) + strings.Repeat(" ", 512<<10), 413, "payload_too_large", "", nil,
		},
		"reconcile nothing":          {"POST", reconcilePath, "", 400, "invalid_request", "", nil},
		"reconcile null":             {"POST", reconcilePath, "null", 400, "invalid_request", "", nil},
		"reconcile a list":           {"POST", reconcilePath, "[]", 400, "invalid_request", "", nil},
		"reconcile with more behind": {"POST", reconcilePath, keys(`["k"]`) + "{}", 400, "invalid_request", "", nil},
		"reconcile a broken list": {
			"POST", reconcilePath, keys(`["k",`), 400, "invalid_request", "idempotencyKeys", nil,
		},
		"reconcile duplicate member": {
			"POST", reconcilePath, `{"operation":"posts","operation":"posts"}`, 400, "invalid_request", "operation", nil,
		},
		"reconcile other case": {
			"POST", reconcilePath, `{"operation":"posts","idempotencykeys":["k"]}`, 400, "invalid_request", "idempotencykeys",
			nil,
		},
		"reconcile lone surrogate": {
			"POST", reconcilePath, keys(`["\ud800"]`), 400, "invalid_request", "idempotencyKeys", nil,
		},
		"reconcile without operation": {
			"POST", reconcilePath, `{"idempotencyKeys":["k"]}`, 400, "invalid_request", "operation", nil,
		},
		"reconcile a numeric operation": {
			"POST", reconcilePath, `{"operation":1,"idempotencyKeys":["k"]}`, 400, "invalid_request", "operation", nil,
		},
		"reconcile unknown operation": {
			"POST", reconcilePath, `{"operation":"post","idempotencyKeys":["k"]}`, 400, "invalid_request", "operation", nil,
		},
		"reconcile without keys": {
			"POST", reconcilePath, `{"operation":"posts"}`, 400, "invalid_request", "idempotencyKeys", nil,
		},
		"reconcile null keys": {
			"POST", reconcilePath, keys("null"), 400, "invalid_request", "idempotencyKeys", nil,
		},
		"reconcile no keys": {"POST", reconcilePath, keys("[]"), 400, "invalid_request", "idempotencyKeys", nil},
		"reconcile too many keys": {
			"POST", reconcilePath, keys(`["k"` + strings.Repeat(`,"k"`, 1000) + "]"), 400, "invalid_request", "idempotencyKeys",
			nil,
		},
		"reconcile a number": {
			"POST", reconcilePath, keys(`["k",1]`), 400, "invalid_request", "idempotencyKeys[1]", nil,
		},
		"reconcile an empty key": {
			"POST", reconcilePath, keys(`["a","b","c",""]`), 400, "invalid_request", "idempotencyKeys[3]", nil,
		},
		"reconcile a long key": {
			"POST", reconcilePath, keys(`["` + long + `"]`), 400, "invalid_request", "idempotencyKeys[0]", nil,
		},
		"reconcile a key with NUL": {
			"POST", reconcilePath, keys(`["a\u0000"]`), 400, "invalid_request", "idempotencyKeys[0]", nil,
		},

		"resolve as text": {
			"POST", resolvePath, novelBody, 415, "unsupported_media_type", "", []string{"Content-Type", ""},
		},
		"resolve too large": {
			"POST", resolvePath, novelBody + strings.Repeat(" ", 32<<10), 413, "payload_too_large", "", nil,
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
			if detail := fmt.Sprint(got.body["detail"]); strings.Contains(detail, "header") {
				t.Errorf("detail speaks of a header: %s", detail)
			}
		})
	}
}

func TestResolveRefusesWhomAnUpsertRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*access.Integration){
		"disabled":           func(p *access.Integration) { p.Enabled = false },
		"without capability": func(p *access.Integration) { p.CanCreateNovels = false },
	} {
		f := newFake()
		change(&f.integration)
		handler, _ := serve(t, f)
		got, upsert := send(t, handler, http.MethodPost, resolvePath, novelBody),
			send(t, handler, http.MethodPost, novelPath, novelBody)
		if got.status != http.StatusForbidden || got.body["code"] != upsert.body["code"] ||
			got.body["detail"] != upsert.body["detail"] {
			t.Errorf("%s: %+v, an upsert %+v", name, got, upsert)
		}
	}
}

// failing is a database that answers nothing.
type failing struct {
	database.Querier
	error
}

func (f failing) Query(context.Context, string, ...any) (pgx.Rows, error) { return nil, f.error }

func (f failing) QueryRow(context.Context, string, ...any) pgx.Row { return failedRow{f.error} }

// failedRow is a row that cannot be read.
type failedRow struct{ error }

func (f failedRow) Scan(...any) error { return f.error }

func (f failing) SendBatch(context.Context, *pgx.Batch) pgx.BatchResults {
	return failedBatch{err: f.error}
}

// failedBatch is a batch without an answer.
type failedBatch struct {
	pgx.BatchResults
	err error
}

func (f failedBatch) Close() error { return f.err }

// TestInquiriesWithoutADatabase tells a database that is away from a defect.
func TestInquiriesWithoutADatabase(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err        error
		status     int
		retryAfter string
	}{
		{fmt.Errorf("a secret: %w", io.ErrUnexpectedEOF), 503, "1"},
		{errors.New("a secret of the inside"), 500, ""},
	} {
		f := newFake()
		handler := serveRecords(t, f, failing{error: tc.err})
		for _, inquiry := range inquiries[1:] {
			got := send(t, handler, inquiry.method, inquiry.path, inquiry.body)
			if got.status != tc.status || got.body["retryable"] != (tc.status == 503) ||
				got.header.Get("Retry-After") != tc.retryAfter || strings.Contains(fmt.Sprint(got.body), "secret") {
				t.Errorf("%s %s: %+v", inquiry.method, inquiry.path, got)
			}
		}
		if f.calls.Load() != 0 {
			t.Error("an inquiry has reached the committer")
		}
	}
}

// serveRecords is serve with a database to read.
func serveRecords(t testing.TB, f *fake, records commands.Records) http.Handler {
	t.Helper()
	api := newAPI(f, timeout, time.Now)
	api.Records = records
	router := mux.NewRouter().SkipClean(true)
	api.Register(router)
	return httpkit.WithRequestID(router)
}
