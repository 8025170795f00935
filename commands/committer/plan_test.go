package committer_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/novel"
	"novelgate/commands/committer"
	"novelgate/internal/testdb"
)

// trips counts the round trips of a pool whose statements are prepared.
type trips struct{ n atomic.Int64 }

func (c *trips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}

func (*trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *trips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.n.Add(1)
	return ctx
}

func (*trips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (*trips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (c *trips) TracePrepareStart(ctx context.Context, _ *pgx.Conn, _ pgx.TracePrepareStartData) context.Context {
	c.n.Add(1)
	return ctx
}

func (*trips) TracePrepareEnd(context.Context, *pgx.Conn, pgx.TracePrepareEndData) {}

// TestRoundTrips counts what a lone command costs. One that writes nothing has a round trip more: it waits for a
// synchronous standby.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	counter := &trips{}
	r := newReplica(t, url, oneLane, func(c *committer.Config) { c.Pool = newPool(t, url, 1, counter) })
	p, q := newPartner(), newPartner()
	for _, warm := range []any{
		p.novel("w1", "Warm", novel.Fields{}), p.novel("w2", "Warm", novel.Fields{}), p.post("w3", "Warm"),
	} {
		if a := r.submit(t.Context(), warm); a.err != nil {
			t.Fatal(a)
		}
	}
	familiar(t, r, p, "Known", "Known, too")
	for _, tc := range []struct {
		name    string
		command any
		want    int64
	}{
		{"creation", p.novel("n", "Title", novel.Fields{}), 3},
		{"update", p.novel("u", "Title", novel.Fields{Author: ptr("Somebody")}), 2},
		{"post that opens a thread", p.post("a", "Title"), 2},
		{"post on a title that the lane does not remember", p.reply("b", "Title", "a"), 2},
		{"post", p.post("c", "Known"), 1},
		{"reply to a comment that the lane remembers", p.reply("d", "Known", "c"), 1},
		{"reply to one that it does not", p.reply("e", "Known", "no such comment"), 2},
		{"update of a title that it remembers", p.novel("v", "Known", novel.Fields{Author: ptr("Nobody")}), 2},
		{"post after that", p.post("f", "Known"), 1},
		{"post that creates its novel", p.post("g", "Other title"), 4},
		{"post after that", p.post("h", "Known"), 1},
		{"replay among first deliveries", p.post("c", "Known"), 3},
		{"replay after another", p.post("d", "Known"), 2},
		{"post after replays", p.post("i", "Known"), 2},
		{"post that creates its novel after replays", p.post("j", "Third title"), 3},
		{"foreign title", q.novel("n", "Title", novel.Fields{}), 2},
	} {
		counter.n.Store(0)
		if a := r.submit(t.Context(), tc.command); a.err != nil {
			t.Errorf("%s: %v", tc.name, a)
		}
		if n := counter.n.Load(); n != tc.want {
			t.Errorf("%s: %d round trips, want %d", tc.name, n, tc.want)
		}
	}
}
