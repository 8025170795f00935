package bulk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands"
	"novelgate/commands/bulk"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/events/eventlog"
	"novelgate/internal/auth"
	"novelgate/internal/database"
	"novelgate/internal/problem"
	"novelgate/internal/testdb"
	"novelgate/internal/web"
)

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }

// fixture is a service for bulk requests of one integration, with a database. It admits the requests, and stands before
// the committer.
type fixture struct {
	*committer.Committer
	pool *pgxpool.Pool
	api  *bulk.API
	url  string
	log  *testdb.Log

	mu          sync.Mutex
	integration auth.Integration
	revoked     bool
	submit      func(ctx context.Context, cmd *committer.Command) error // called before each command; its error refuses it
}

func setup(t *testing.T) *fixture {
	t.Helper()
	pools := testdb.Must(database.Open(t.Context(), testdb.New(t)))(t)
	t.Cleanup(pools.Close)
	log := &testdb.Log{}
	logger := log.Logger()
	f := &fixture{log: log, pool: pools.General, submit: func(context.Context, *committer.Command) error { return nil }}
	f.integration = auth.Integration{
		KeyID: uuid.New(), IntegrationID: uuid.New(), Enabled: true, CanCreateNovels: true, CanPost: true, CanImport: true,
		LinesPerMinute: 1_000_000,
	}
	testdb.Exec(t, f.pool, `INSERT INTO integrations (integration_id, name, folded_name, enabled, can_create_novels, can_post, can_import,
    posts_per_minute, novels_per_minute, lines_per_minute, review, registered_at)
VALUES ($1, 'Partner', 'partner', true, true, true, true, 0, 0, 0, false, now())`, f.integration.IntegrationID)
	f.Committer = committer.New(committer.Config{
		Pool: pools.Append, Limiter: ratelimit.New(time.Now), Breaker: &eventlog.Breaker{Pool: pools.General, Logger: logger},
		Logger: logger, Timeout: time.Minute,
	})
	t.Cleanup(f.Close)
	kit := &web.Kit{
		Logger: logger, Now: time.Now, Timeout: time.Minute, Problems: []func(error) *problem.Error{commands.Problem},
	}
	f.api = &bulk.API{
		Kit: kit, Partners: auth.NewPartners(kit, f.authenticate), Committer: f, Draining: func() bool { return false },
		Outcomes:  bulk.NewOutcomes(),
		Addresses: web.NewAddresses(&url.URL{Scheme: "https", Host: "novels.example"}),
	}
	router := mux.NewRouter()
	f.api.Register(router)
	server := httptest.NewServer(kit.Handler(router, nil))
	t.Cleanup(server.Close)
	f.url = server.URL + "/api/integrations/bulk"
	return f
}

// authenticate accepts every key.
func (f *fixture) authenticate(context.Context, string) (*auth.Integration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.revoked {
		return nil, auth.ErrUnknown
	}
	return new(f.integration), nil
}

// set changes the fields of the fixture.
func (f *fixture) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// Submit implements bulk.Committer.
func (f *fixture) Submit(ctx context.Context, cmd *committer.Command) (committer.Submitted, error) {
	if err := f.submit(ctx, cmd); err != nil {
		return committer.Submitted{}, err
	}
	return f.Committer.Submit(ctx, cmd)
}

// outcome is a line of an answer.
type outcome struct {
	Line           int                `json:"line"`
	Operation      string             `json:"operation"`
	IdempotencyKey string             `json:"idempotencyKey"`
	Status         int                `json:"status"`
	Created        bool               `json:"created"`
	Updated        bool               `json:"updated"`
	Canonical      bool               `json:"canonical"`
	NovelID        string             `json:"novelId"`
	Slug           string             `json:"slug"`
	PostID         string             `json:"postId"`
	ThreadID       string             `json:"threadId"`
	ParentPostID   *string            `json:"parentPostId"`
	URL            string             `json:"url"`
	Replayed       bool               `json:"replayed"`
	Mismatch       bool               `json:"mismatch"`
	Warnings       []commands.Warning `json:"warnings"`
	Problem        *struct {
		Code      string `json:"code"`
		Detail    string `json:"detail"`
		RequestID string `json:"requestId"`
		Retryable bool   `json:"retryable"`
	} `json:"problem"`
	RetryAfter int `json:"retryAfter"`
}

// code returns the code of a problem, or the status.
func (o *outcome) code() string {
	if o.Problem != nil {
		return o.Problem.Code
	}
	return fmt.Sprint(o.Status)
}

// answer is an answer whose body may still arrive.
type answer struct {
	status int
	header http.Header
	body   io.Reader
}

// post sends a request.
func (f *fixture) post(ctx context.Context, t testing.TB, body io.Reader, header ...string) answer {
	t.Helper()
	r := testdb.Must(http.NewRequestWithContext(ctx, http.MethodPost, f.url, body))(t)
	r.Header.Set("Authorization", "Bearer key")
	r.Header.Set("Content-Type", "application/x-ndjson")
	r.Header.Set("X-Request-Id", "request")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response := testdb.Must(http.DefaultClient.Do(r))(t) //nolint:bodyclose // the cleanup closes it
	t.Cleanup(func() { _ = response.Body.Close() })
	return answer{response.StatusCode, response.Header, response.Body}
}

// send sends lines, and returns their outcomes.
func (f *fixture) send(t testing.TB, lines string, header ...string) (outcomes []outcome) {
	t.Helper()
	response := f.post(t.Context(), t, strings.NewReader(lines), header...)
	text := testdb.Must(io.ReadAll(response.body))(t)
	if response.status != http.StatusOK || response.header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%d %s %s", response.status, response.header, text)
	}
	for line := range bytes.Lines(text) {
		var o outcome
		if err := json.Unmarshal(line, &o); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		outcomes = append(outcomes, o)
	}
	return outcomes
}

// codes returns the codes of outcomes.
func codes(outcomes []outcome) (all []string) {
	for _, o := range outcomes {
		all = append(all, o.code())
	}
	return all
}

// comment returns a line with a comment. Without a parent it is top-level.
func comment(key, parent, content string) string {
	reply := ""
	if parent != "" {
		reply = fmt.Sprintf(`,"parent_uuid":%q`, parent)
	}
	return fmt.Sprintf(`{"operation":"posts","idempotencyKey":%q,"body":{"uuid":"u","username":"n","novel":"N","content":%q%s}}`,
		key, content, reply) + "\n"
}

// upsert returns a line with an upsert.
func upsert(key, title, synopsis string) string {
	return fmt.Sprintf(`{"operation":"novels","idempotencyKey":%q,"body":{"novel":%q,"synopsis":%q}}`, key, title, synopsis) +
		"\n"
}

// parents returns the keys of the stored comments that begin with prefix, with those of their parents; "" for top-level
// comments.
func (f *fixture) parents(t testing.TB, prefix string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, pair := range testdb.Values[[]string](t, f.pool, `SELECT ARRAY[c.event_id, coalesce(p.event_id, '')] FROM events AS c
    LEFT JOIN events AS p ON p.stream_id = (c.data->>'parentPostId')::uuid AND p.stream_version = 1
WHERE starts_with(c.event_id, $1) AND c.event_type = 'post.imported.v1'`, prefix) {
		found[pair[0]] = pair[1]
	}
	return found
}
