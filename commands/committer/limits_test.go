package committer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/aggregates/author"
	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/internal/testdb"
)

// wantLimited fails unless a command is refused because of a limit.
func wantLimited(t testing.TB, a answer, operation ratelimit.Operation, limit int) {
	t.Helper()
	var refused *committer.RateLimitedError
	if !errors.As(a.err, &refused) || refused.Operation != operation || refused.Limit != limit ||
		refused.RetryAfter <= 0 || refused.RetryAfter > 61*time.Second {
		t.Errorf("%s: %v (%+v), want the limit of %d %s", a.key, a, refused, limit, operation)
	}
}

// TestReplicasShareLimits: two replicas race, and together they grant exactly as many comments or creations as the
// limit allows, also when the refused ones are tried again. Another integration is not limited.
func TestReplicasShareLimits(t *testing.T) {
	t.Parallel()
	const comments, creations, n = 50, 7, 200
	limited, other := newPartner(), newPartner()
	limited.PostsPerMinute = comments
	creating := newPartner()
	creating.NovelsPerMinute = creations
	for operation, tc := range map[ratelimit.Operation]struct {
		limit   int
		command func(i int) *committer.Command
	}{
		ratelimit.Posts: {comments, func(i int) *committer.Command { return limited.post(fmt.Sprint(i), "Title") }},
		ratelimit.Novels: {creations, func(i int) *committer.Command {
			if i%2 == 0 {
				return creating.novel(fmt.Sprint(i), fmt.Sprint("Title ", i), novel.Fields{})
			}
			return creating.post(fmt.Sprint(i), fmt.Sprint("Title ", i))
		}},
	} {
		t.Run(string(operation), func(t *testing.T) {
			t.Parallel()
			url := testdb.New(t)
			replicas := []*replica{newReplica(t, url), newReplica(t, url)}
			replicas[0].must(t, other.post("open", "Title"))
			stored := map[int]bool{}
			for round := range 2 {
				var mu sync.Mutex // guards stored
				var wg sync.WaitGroup
				start, before := time.Now(), maps.Clone(stored)
				for i := range n {
					if before[i] {
						continue
					}
					wg.Go(func() {
						a := replicas[(i+round)%2].submit(context.Background(), tc.command(i))
						mu.Lock()
						defer mu.Unlock()
						if a.err == nil {
							stored[i] = true
						} else {
							wantLimited(t, a, operation, tc.limit)
						}
					})
				}
				wg.Wait()
				if took := time.Since(start); took > 50*time.Second {
					t.Skipf("this machine took %s", took)
				}
				if len(stored) != tc.limit {
					t.Errorf("round %d: %d commands are executed", round, len(stored))
				}
			}
			// The other integration has used one permit.
			if used := replicas[0].charged(t, operation); used != tc.limit+1 {
				t.Errorf("%d permits are used, want %d and that of the other integration", used, tc.limit)
			}
			replicas[1].want(t, "post", other.post("another", "Another title"))
			checkTruth(t, replicas[0].db)
		})
	}
}

// TestWhatCountsAsAComment: replays and refused comments count, but not one that was refused because of the limit. Its
// key is not used.
func TestWhatCountsAsAComment(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"one by one", "together"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r, p := setup(t)
			block(t, r.db, p, "troll")
			r.must(t, newPartner().novel("n", "Title", novel.Fields{}))
			p.PostsPerMinute, p.CanCreateNovels = 8, false
			awaiting := p.reply("awaiting", "Title", "unknown")
			awaiting.Comment.AwaitParent = true
			commands := batch{
				p.post("1", "Title"), p.post("1", "Title"), p.post("1", "Other"), p.post("2", "Unknown"),
				p.postBy("troll", "3", "Title"), awaiting, line(p.post("line", "Title")),
				p.novel("n", "Title", novel.Fields{}), p.post("1", "Title"),
				p.post("4", "Title"), p.post("5", "Title"), p.post("1", "Title"), line(p.post("another line", "Title")),
			}
			want := []any{
				"post", "post replayed", "post replayed mismatch", post.ErrNovelNotFound, author.ErrBlocked,
				committer.ErrParentUnknown, "post", "foreign", "post replayed",
				"post", nil, nil, "post",
			}
			var answers []answer
			if mode == "together" {
				answers = r.together(t, commands...)
			} else {
				for _, command := range commands {
					answers = append(answers, r.submit(t.Context(), command))
				}
			}
			for i, a := range answers {
				if want[i] == nil {
					wantLimited(t, a, ratelimit.Posts, 8)
				} else {
					a.want(t, want[i])
				}
			}
			if n := r.charged(t, ratelimit.Posts); n != 8 {
				t.Errorf("%d permits are used", n)
			}
			p.PostsPerMinute = 9
			r.want(t, "post", p.post("5", "Title"))
			checkTruth(t, r.db)
		})
	}
}

// newCountingPool returns a pool that counts its round trips.
func newCountingPool(t *testing.T, url string) (*pgxpool.Pool, *atomic.Int64) {
	t.Helper()
	trips := &atomic.Int64{}
	return newPool(t, url, func(c *pgxpool.Config) {
		c.ConnConfig.Tracer = &tracer{func(*pgx.Conn, ...string) { trips.Add(1) }}
	}), trips
}
