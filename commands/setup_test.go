package commands_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"

	"novelgate/commands"
	"novelgate/commands/access"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// fake stands for all that the HTTP side calls. Its zero value says yes to everything.
type fake struct {
	authenticate func(context.Context) error
	upsert       func(context.Context, *committer.UpsertNovel) (committer.NovelResult, error)
	post         func(context.Context, *committer.ImportPost) (committer.PostResult, error)
	take         func(context.Context) (ratelimit.Decision, error)
	status       ratelimit.Decision
	integration  access.Integration
	calls        atomic.Int64 // of the committer
}

func newFake() *fake {
	return &fake{integration: access.Integration{
		KeyID: uuid.New(), IntegrationID: uuid.New(), Enabled: true, CanCreateNovels: true, CanPost: true, PostsPerMinute: 60,
		NovelsPerMinute: 5,
	}}
}

func (f *fake) Authenticate(ctx context.Context, _ string) (*access.Integration, error) {
	if f.authenticate != nil {
		if err := f.authenticate(ctx); err != nil {
			return nil, err
		}
	}
	return &f.integration, nil
}

func (f *fake) UpsertNovel(ctx context.Context, cmd *committer.UpsertNovel) (committer.NovelResult, error) {
	f.calls.Add(1)
	if f.upsert == nil {
		return committer.NovelResult{Outcome: 1, NovelID: novelID, Slug: "a-title"}, nil
	}
	return f.upsert(ctx, cmd)
}

func (f *fake) ImportPost(ctx context.Context, cmd *committer.ImportPost) (committer.PostResult, error) {
	f.calls.Add(1)
	if f.post == nil {
		return committer.PostResult{PostID: postID, ThreadID: threadID}, nil
	}
	return f.post(ctx, cmd)
}

func (f *fake) Take(ctx context.Context, _ uuid.UUID, _ ratelimit.Operation, limit, n int) (ratelimit.Decision, error) {
	if f.take == nil {
		return ratelimit.Decision{Granted: n, Limit: limit}, nil
	}
	return f.take(ctx)
}

func (f *fake) Status(uuid.UUID, ratelimit.Operation, int) ratelimit.Decision { return f.status }

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

// timeout is that of the API under test.
const timeout = 100 * time.Millisecond

// newKit returns a kit as the service wires it, without a log.
func newKit(timeout time.Duration, now func() time.Time) *httpkit.Kit {
	return &httpkit.Kit{
		Logger: slog.New(slog.DiscardHandler), Timeout: timeout, Now: now,
		Problems: []func(error) *problem.Error{commands.Problem},
	}
}

var hostAddresses = httpkit.NewAddresses(&url.URL{Scheme: "https", Host: "host.example", Path: "/books"})

// newAPI returns the API over a fake.
func newAPI(f *fake, timeout time.Duration, now func() time.Time) *commands.API {
	return &commands.API{
		Kit: newKit(timeout, now), Keys: f, Committer: f, Limiter: f, Outcomes: commands.NewOutcomes(),
		Addresses: hostAddresses,
	}
}

// serve returns the routes over a fake, wired as the service wires them, and their metrics.
func serve(t testing.TB, f *fake) (http.Handler, []prometheus.Collector) {
	t.Helper()
	metrics := httpkit.NewMetrics()
	api := newAPI(f, timeout, time.Now)
	router := mux.NewRouter().SkipClean(true)
	router.Use(metrics.Middleware, api.RecoverPanics)
	api.Register(router)
	router.NotFoundHandler = metrics.Middleware(http.HandlerFunc(api.NotFound))
	router.MethodNotAllowedHandler = metrics.Middleware(api.MethodNotAllowed(router))
	return httpkit.WithRequestID(router), []prometheus.Collector{metrics, api.Outcomes}
}

// reply is an answer with its JSON body decoded.
type reply struct {
	status int
	header http.Header
	body   map[string]any
}

// send sends a valid request; header pairs override its own, "" removes.
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
