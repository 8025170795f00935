package commands_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/aggregates/principal"
	"novelgate/commands"
	"novelgate/commands/access"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/commands/staff"
	"novelgate/internal/database"
	"novelgate/internal/httpkit"
	"novelgate/internal/testdb"
)

// service is the partners' routes, wired as the binary wires them, and staff.
type service struct {
	handler http.Handler
	staff   *staff.Staff
	keys    *access.Keys
	pool    *pgxpool.Pool
}

func newService(t *testing.T) *service {
	t.Helper()
	pools, err := database.Open(t.Context(), testdb.New(t), 2, database.DefaultConnections(2))
	if err != nil {
		t.Fatalf("open pools: %v", err)
	}
	t.Cleanup(pools.Close)
	logger := slog.New(slog.DiscardHandler)
	limiter := ratelimit.New(pools.Limits, time.Now)
	t.Cleanup(limiter.Close)
	committed := committer.New(committer.Config{
		Pool: pools.Append, Permits: limiter, Logger: logger, Metrics: committer.NewMetrics(), Lanes: 2, Timeout: time.Minute,
		Committed: func() {},
	})
	t.Cleanup(committed.Close)
	s := &service{
		pool: pools.General, keys: access.New(pools.Access, time.Now),
		staff: &staff.Staff{Pool: pools.General, Actor: "staff:test", Now: time.Now},
	}
	api := &commands.API{
		Kit: newKit(time.Minute, time.Now), Keys: s.keys, Committer: committed, Limiter: limiter, Records: pools.Read,
		Outcomes:  commands.NewOutcomes(),
		Addresses: httpkit.NewAddresses(&url.URL{Scheme: "https", Host: "host.example"}),
	}
	router := mux.NewRouter().SkipClean(true)
	api.Register(router)
	s.handler = httpkit.WithRequestID(router)
	return s
}

// partner is an integration with its key.
type partner struct {
	*service
	staff.Integration
	key string
}

func (s *service) partner(t *testing.T, name string, change principal.Change) *partner {
	t.Helper()
	change.Capabilities = map[principal.Capability]bool{principal.Posts: true, principal.Novels: true}
	created, err := s.staff.CreateIntegration(t.Context(), name, change)
	if err != nil {
		t.Fatalf("create integration: %v", err)
	}
	_, secret, err := s.staff.IssueKey(t.Context(), created.ID, 0)
	if err != nil {
		t.Fatalf("issue key: %v", err)
	}
	return &partner{s, created, secret.Reveal()}
}

// send returns status and body of an answer.
func (p *partner) send(t *testing.T, method, path, key, body string) (int, map[string]any) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+p.key)
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r)
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s %s: body %q: %v", method, path, w.Body, err)
	}
	return w.Code, answer
}

// must is send for what has to succeed.
func (p *partner) must(t *testing.T, method, path, key, body string) map[string]any {
	t.Helper()
	status, answer := p.send(t, method, path, key, body)
	if status != http.StatusOK && status != http.StatusCreated {
		t.Fatalf("%s %s: %d %v", method, path, status, answer)
	}
	return answer
}

func (p *partner) upsert(t *testing.T, key, title string) map[string]any {
	t.Helper()
	return p.must(t, http.MethodPost, "/api/integrations/novels", key, `{"novel":"`+title+`"}`)
}

func (p *partner) comment(t *testing.T, key, title, more string) map[string]any {
	t.Helper()
	return p.must(t, http.MethodPost, "/api/integrations/posts", key,
		`{"uuid":"u","username":"n","content":"c","novel":"`+title+`"`+more+`}`)
}

func (p *partner) delivery(t *testing.T, operation, key string) (int, map[string]any) {
	t.Helper()
	return p.send(t, http.MethodGet, "/api/integrations/deliveries/"+url.PathEscape(key)+"?operation="+operation, "", "")
}

func (p *partner) resolve(t *testing.T, title string) map[string]any {
	t.Helper()
	return p.must(t, http.MethodPost, "/api/integrations/resolve", "", `{"novel":"`+title+`"}`)
}

// events counts the log.
func (s *service) events(t *testing.T) int {
	t.Helper()
	var n int
	if err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM events`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
