package commands_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/principal"
	"novelgate/commands"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/commands/staff"
	"novelgate/events/eventlog"
	"novelgate/internal/auth"
	"novelgate/internal/database"
	"novelgate/internal/problem"
	"novelgate/internal/testdb"
	"novelgate/internal/web"
)

// fake implements all dependencies of the HTTP side. Its zero value accepts everything.
type fake struct {
	authenticate func(context.Context) error
	execute      func(context.Context, *committer.Command) (committer.Result, error)
	status       ratelimit.Decision
	integration  auth.Integration
	calls        atomic.Int64 // of the committer
}

func newFake() *fake {
	return &fake{integration: auth.Integration{
		KeyID: uuid.New(), IntegrationID: uuid.New(), Enabled: true, CanCreateNovels: true, CanPost: true, PostsPerMinute: 60,
		NovelsPerMinute: 5, CanImport: true, LinesPerMinute: 70,
	}}
}

func (f *fake) Authenticate(ctx context.Context, _ string) (*auth.Integration, error) {
	if f.authenticate != nil {
		if err := f.authenticate(ctx); err != nil {
			return nil, err
		}
	}
	return new(f.integration), nil // a copy: a later change is not seen without another call
}

func (f *fake) Execute(ctx context.Context, cmd *committer.Command) (committer.Result, error) {
	f.calls.Add(1)
	if f.execute == nil {
		return committer.Result{
			Outcome: novel.Created, NovelID: novelID, Slug: "a-title", PostID: postID, ThreadID: threadID,
		}, nil
	}
	return f.execute(ctx, cmd)
}

func (f *fake) Status(ratelimit.Key, int) ratelimit.Decision { return f.status }

var (
	novelID  = uuid.MustParse("11111111-1111-5111-8111-111111111111")
	threadID = uuid.MustParse("22222222-2222-5222-8222-222222222222")
	postID   = uuid.MustParse("33333333-3333-5333-8333-333333333333")
)

const (
	novelPath = "/api/integrations/novels"
	postPath  = "/api/integrations/posts"
	novelBody = `{"novel":"A title"}`
	postBody  = `{"uuid":"u","username":"n","novel":"A title","content":"c"}`
)

// newKit returns the service's kit without a log.
func newKit(timeout time.Duration, now func() time.Time) *web.Kit {
	return &web.Kit{
		Logger: slog.New(slog.DiscardHandler), Timeout: timeout, Now: now,
		Problems: []func(error) *problem.Error{commands.Problem},
	}
}

var hostAddresses = web.NewAddresses(&url.URL{Scheme: "https", Host: "host.example", Path: "/books"})

// newAPI returns the API over a fake.
func newAPI(f *fake, timeout time.Duration, now func() time.Time) *commands.API {
	return newAPIWith(newKit(timeout, now), f)
}

func newAPIWith(kit *web.Kit, f *fake) *commands.API {
	partners := auth.NewPartners(kit, f.Authenticate)
	limits := commands.Limits{Limiter: f}
	partners.Headers = limits.SetHeaders
	return &commands.API{
		Partners: partners, Committer: f, Limits: limits, Outcomes: commands.NewOutcomes(), Addresses: hostAddresses,
	}
}

// routes returns the routes of an API, wired as in the service.
func routes(api *commands.API) http.Handler {
	router := mux.NewRouter().SkipClean(true)
	api.Register(router)
	return api.Partners.Handler(router, nil)
}

// serve returns the routes over a fake, and their metrics.
func serve(t testing.TB, f *fake) (http.Handler, []prometheus.Collector) {
	t.Helper()
	kit := newKit(time.Minute, time.Now)
	kit.Metrics = web.NewMetrics()
	api := newAPIWith(kit, f)
	return routes(api), []prometheus.Collector{kit.Metrics, api.Outcomes}
}

// reply is an answer with its JSON body decoded.
type reply struct {
	status int
	header http.Header
	body   map[string]any
}

// send sends a valid request; pairs of headers override its own, "" removes one.
func send(t testing.TB, handler http.Handler, method, path, body string, header ...string) reply {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer key")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "key-1")
	for i := 0; i < len(header); i += 2 {
		if header[i+1] == "" {
			r.Header.Del(header[i])
		} else {
			r.Header.Set(header[i], header[i+1])
		}
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	got := reply{status: w.Code, header: w.Header()}
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &got.body); err != nil {
			t.Errorf("body %q: %v", w.Body, err)
		}
	}
	return got
}

// service is the partners' routes, wired as the binary wires them, and staff.
type service struct {
	handler http.Handler
	staff   *staff.Staff
	keys    *auth.Keys
	pool    *pgxpool.Pool
}

func newService(t *testing.T) *service {
	t.Helper()
	pools, err := database.Open(t.Context(), testdb.New(t))
	if err != nil {
		t.Fatalf("open pools: %v", err)
	}
	t.Cleanup(pools.Close)
	logger := slog.New(slog.DiscardHandler)
	limiter := ratelimit.New(time.Now)
	committed := committer.New(committer.Config{
		Pool: pools.Append, Limiter: limiter, Breaker: &eventlog.Breaker{Pool: pools.General, Logger: logger},
		Logger: logger, Metrics: committer.NewMetrics(), Timeout: time.Minute,
	})
	t.Cleanup(committed.Close)
	s := &service{
		pool: pools.General, keys: auth.NewKeys(pools.Access, time.Now),
		staff: &staff.Staff{Pool: pools.General, Actor: "staff:test", Now: time.Now},
	}
	api := &commands.API{
		Partners:  auth.NewPartners(newKit(time.Minute, time.Now), s.keys.Authenticate),
		Committer: committed, Limits: commands.Limits{Limiter: limiter}, DB: pools.Read, Outcomes: commands.NewOutcomes(),
		Addresses: web.NewAddresses(&url.URL{Scheme: "https", Host: "host.example"}),
	}
	s.handler = routes(api)
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

// send returns the status and the body of an answer.
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

// must is send for a request that must succeed.
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

// events returns the number of events.
func (s *service) events(t *testing.T) int {
	t.Helper()
	return testdb.Value[int](t, s.pool, `SELECT count(*) FROM events`)
}

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }
