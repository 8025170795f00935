package staff_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/gorilla/mux"

	"novelgate/aggregates/principal"
	"novelgate/commands/staff"
	"novelgate/internal/auth"
	"novelgate/internal/problem"
	"novelgate/internal/testdb"
	"novelgate/internal/web"
)

// fixture is the admin API on its own database, with a key of every kind.
type fixture struct {
	sent                   int // number of requests by post
	api                    *staff.API
	handler                http.Handler
	kit                    *web.Kit
	keys                   *auth.Keys
	staff                  *staff.Staff
	ada, auditor, partner  string
	expired, revokedPerson string
	integrationID          string
	log                    *bytes.Buffer // everything that was logged
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	ctx := context.Background()
	pool := testdb.Pool(t, testdb.New(t))
	d := &fixture{
		log: &bytes.Buffer{}, keys: auth.NewKeys(pool, time.Now),
		staff: &staff.Staff{Pool: pool, Actor: "staff:setup", Now: time.Now},
	}
	d.kit = &web.Kit{
		Logger:  slog.New(slog.NewTextHandler(d.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Timeout: time.Minute, Now: time.Now, Problems: []func(error) *problem.Error{staff.Problem},
	}
	d.api = &staff.API{Staff: auth.NewStaff(d.kit, d.keys), Pool: pool, Kit: d.kit}
	router := mux.NewRouter().SkipClean(true)
	d.api.Register(router)
	d.handler = d.kit.Handler(router, nil)

	d.ada = d.person(t, principal.Staff, "ada", 0)
	d.auditor = d.person(t, principal.Auditor, "otto", 0)
	d.expired = d.person(t, principal.Staff, "eve", time.Nanosecond)
	key, secret, err := d.staff.IssueUserKey(ctx, principal.Staff, "rex", 0)
	if err != nil {
		t.Fatal(err)
	}
	d.revokedPerson = secret.Reveal()
	testdb.Must(d.staff.RevokeUserKey(ctx, key.ID, "gone"))(t)
	made, err := d.staff.CreateIntegration(ctx, "Fan Site", principal.Change{})
	if err != nil {
		t.Fatal(err)
	}
	d.integrationID = made.ID.String()
	_, secret, err = d.staff.IssueKey(ctx, made.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	d.partner = secret.Reveal()
	return d
}

// isValid reports whether the key of an integration is valid now.
func (d *fixture) isValid(t *testing.T, key string) bool {
	t.Helper()
	_, err := auth.NewKeys(d.api.Pool, time.Now).Authenticate(t.Context(), key) // without the cache of others
	return err == nil
}

func (d *fixture) person(t *testing.T, role, name string, lifetime time.Duration) string {
	t.Helper()
	_, secret, err := d.staff.IssueUserKey(context.Background(), role, name, lifetime)
	if err != nil {
		t.Fatal(err)
	}
	return secret.Reveal()
}

// answer is the answer to a request.
type answer struct {
	status int
	header http.Header
	body   map[string]any
	text   string
}

func (a answer) code() string { code, _ := a.body["code"].(string); return code }

func (a answer) str(name string) string { text, _ := a.body[name].(string); return text }

func (a answer) items(t *testing.T) []map[string]any {
	t.Helper()
	list, ok := a.body["items"].([]any)
	if !ok {
		t.Fatalf("no items: %s", a.text)
	}
	items := make([]map[string]any, len(list))
	for i := range list {
		items[i], _ = list[i].(map[string]any)
	}
	return items
}

// send sends a request with a key, without Idempotency-Key if idempotencyKey is "".
func (d *fixture) send(t *testing.T, key, method, path, idempotencyKey, body string) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if idempotencyKey != "" {
		r.Header.Set("Idempotency-Key", idempotencyKey)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, r)
	a := answer{status: w.Code, header: w.Header(), text: w.Body.String()}
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &a.body); err != nil {
			t.Fatalf("%s %s: %v: %s", method, path, err, w.Body)
		}
	}
	return a
}

// get sends a GET with the staff key.
func (d *fixture) get(t *testing.T, path string) answer {
	t.Helper()
	return d.send(t, d.ada, http.MethodGet, path, "", "")
}

// post sends a POST with the staff key and a new Idempotency-Key.
func (d *fixture) post(t *testing.T, path, body string) answer {
	t.Helper()
	d.sent++
	return d.send(t, d.ada, http.MethodPost, path, fmt.Sprint("post-", d.sent), body)
}
