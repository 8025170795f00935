package auth_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/aggregates/principal"
	"novelgate/commands/staff"
	"novelgate/internal/auth"
	"novelgate/internal/testdb"
)

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// bundle is a replica that authenticates, an integration, and staff.
type bundle struct {
	keys        *auth.Keys
	pool        *pgxpool.Pool // of keys
	queries     *queries      // on that pool
	clock       *clock        // shared
	staff       *staff.Staff
	integration staff.Integration
}

func setup(t *testing.T) *bundle {
	t.Helper()
	url := testdb.New(t)
	b := &bundle{clock: &clock{now: noon}, queries: &queries{}}
	b.pool = newPool(t, url, b.queries)
	b.keys = auth.NewKeys(b.pool, b.clock.Now)
	b.staff = &staff.Staff{Pool: newPool(t, url, nil), Actor: "staff:test", Now: b.clock.Now}
	var err error
	b.integration, err = b.staff.CreateIntegration(t.Context(), "Partner", principal.Change{
		Capabilities:   map[principal.Capability]bool{principal.Posts: true},
		PostsPerMinute: new(7), NovelsPerMinute: new(8), Review: new(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newPool(t *testing.T, url string, tracer pgx.QueryTracer) *pgxpool.Pool {
	t.Helper()
	config := testdb.Must(pgxpool.ParseConfig(url))(t)
	config.ConnConfig.Tracer = tracer
	pool := testdb.Must(pgxpool.NewWithConfig(t.Context(), config))(t)
	t.Cleanup(pool.Close)
	return pool
}

func (b *bundle) issue(t *testing.T, lifetime time.Duration) (staff.Key, auth.Secret) {
	t.Helper()
	key, secret, err := b.staff.IssueKey(t.Context(), b.integration.ID, lifetime)
	if err != nil {
		t.Fatal(err)
	}
	return key, secret
}

func (b *bundle) revoke(t *testing.T, key staff.Key) {
	t.Helper()
	testdb.Must(b.staff.RevokeKey(t.Context(), key.ID, "leaked"))(t)
}

func (b *bundle) issueUser(t *testing.T, role string, lifetime time.Duration) (staff.UserKey, auth.Secret) {
	t.Helper()
	key, secret, err := b.staff.IssueUserKey(t.Context(), role, "Ada", lifetime)
	if err != nil {
		t.Fatal(err)
	}
	return key, secret
}

// want authenticates an integration and checks the error.
func (b *bundle) want(t testing.TB, secret auth.Secret, want error) {
	t.Helper()
	if _, err := b.keys.Authenticate(t.Context(), secret.Reveal()); !errors.Is(err, want) {
		t.Errorf("at %s: %v, want %v", b.clock.Now(), err, want)
	}
}

func (b *bundle) saveUsage(t *testing.T) {
	t.Helper()
	if err := b.keys.SaveUsage(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// clock is a fake clock.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// queries counts look-ups that the database has answered in time, and can block the next one after the answer.
type queries struct {
	count atomic.Int64
	held  atomic.Pointer[held]
}

type held struct {
	answered chan struct{} // closed when the database has answered
	release  chan struct{} // closed to let the answer through
}

func (q *queries) holdNext() *held {
	h := &held{answered: make(chan struct{}), release: make(chan struct{})}
	q.held.Store(h)
	return h
}

type lookUpKey struct{}

// TraceQueryStart implements pgx.QueryTracer.
func (q *queries) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !strings.Contains(data.SQL, "FROM api_keys") && !strings.Contains(data.SQL, "FROM person_keys") {
		return ctx
	}
	return context.WithValue(ctx, lookUpKey{}, true)
}

// TraceQueryEnd implements pgx.QueryTracer.
func (q *queries) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	if ctx.Value(lookUpKey{}) == nil || data.Err != nil {
		return
	}
	q.count.Add(1)
	if h := q.held.Swap(nil); h != nil {
		close(h.answered)
		<-h.release
	}
}
