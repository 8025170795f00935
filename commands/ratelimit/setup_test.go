package ratelimit_test

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/ratelimit"
	"novelgate/internal/testdb"
)

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }

// bundle is a database, replicas that share it, and an integration.
type bundle struct {
	pool        *pgxpool.Pool
	replicas    []*ratelimit.Limiter
	integration uuid.UUID
	calls       *calls
}

func setup(t testing.TB, replicas int) *bundle {
	t.Helper()
	b := &bundle{integration: uuid.New(), calls: &calls{}}
	b.pool = newPool(t, testdb.New(t), b.calls)
	for range replicas {
		limiter := ratelimit.New(b.pool, time.Now)
		t.Cleanup(limiter.Close)
		b.replicas = append(b.replicas, limiter)
	}
	return b
}

func newPool(t testing.TB, url string, tracer pgx.QueryTracer) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatalf("parse URL: %v", err)
	}
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
	config.ConnConfig.Tracer = tracer
	config.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("open pool: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// take takes n post permits from a replica. It may be called from any goroutine.
func (b *bundle) take(t testing.TB, replica, limit, n int) ratelimit.Decision {
	t.Helper()
	d, err := b.replicas[replica].Take(t.Context(), b.integration, ratelimit.Posts, limit, n)
	if err != nil {
		t.Errorf("take %d of %d: %v", n, limit, err)
		return d
	}
	if d.Granted < 0 || d.Granted > n || d.Limit != limit || d.Remaining < 0 || d.Remaining > limit || d.Reset < 0 ||
		(d.Granted < n) != (d.RetryAfter > 0) {
		t.Errorf("take %d of %d: contradictory decision %+v", n, limit, d)
	}
	return d
}

// charged returns the number of charged permits in the row of the integration.
func (b *bundle) charged(t testing.TB) int {
	t.Helper()
	return testdb.Value[int](t, b.pool,
		`SELECT coalesce(sum(n), 0) FROM rate_limits, unnest(charged) AS n WHERE integration_id = $1`, b.integration)
}

// block locks the row of the integration, so that calls wait until release is called.
func (b *bundle) block(t testing.TB) (release func()) {
	t.Helper()
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	testdb.Exec(t, tx, `SELECT FROM rate_limits WHERE integration_id = $1 FOR UPDATE`, b.integration)
	return func() {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Errorf("unlock row: %v", err)
		}
	}
}

// calls counts the statements of a pool.
type calls struct{ n atomic.Int64 }

func (c *calls) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}

func (c *calls) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
