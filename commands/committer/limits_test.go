package committer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
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

// TestReplicasShareTheLimitOfComments: two replicas race, and together they execute exactly as many comments as the
// limit allows, also when the refused ones are tried again.
func TestReplicasShareTheLimitOfComments(t *testing.T) {
	t.Parallel()
	const limit, comments = 50, 200
	url := testdb.New(t)
	replicas := []*replica{newReplica(t, url), newReplica(t, url)}
	p, other := newPartner(), newPartner()
	p.PostsPerMinute = limit
	replicas[0].must(t, other.post("open", "Title"))
	stored := map[string]bool{}
	for round := range 2 {
		var mu sync.Mutex
		var wg sync.WaitGroup
		start := time.Now()
		for i := range comments {
			key := fmt.Sprint(i)
			if stored[key] {
				continue
			}
			wg.Go(func() {
				a := replicas[(i+round)%2].submit(context.Background(), p.post(key, "Title"))
				mu.Lock()
				defer mu.Unlock()
				if a.err == nil {
					stored[key] = true
				} else {
					wantLimited(t, a, ratelimit.Posts, limit)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took > 50*time.Second {
			t.Skipf("this machine took %s", took)
		}
		if len(stored) != limit {
			t.Errorf("round %d: %d comments are stored", round, len(stored))
		}
	}
	if n := testdb.Value[int](t, replicas[0].db, `SELECT count(*) FROM events WHERE stream_type = 'post' AND integration_id = $1`,
		p.IntegrationID); n != limit {
		t.Errorf("%d comments are in the log", n)
	}
	if n := replicas[0].charged(t, ratelimit.Posts); n != limit+1 {
		t.Errorf("%d permits are used, want %d and that of the other integration", n, limit)
	}
	replicas[1].want(t, "post", other.post("another", "Title"))
	checkTruth(t, replicas[0].db)
}

// TestReplicasShareTheLimitOfCreations: a retry of a refused creation succeeds as that of a new one, with its key.
func TestReplicasShareTheLimitOfCreations(t *testing.T) {
	t.Parallel()
	const limit, titles = 7, 40
	url := testdb.New(t)
	replicas := []*replica{newReplica(t, url), newReplica(t, url)}
	p := newPartner()
	p.NovelsPerMinute = limit
	var created atomic.Int64
	var wg sync.WaitGroup
	for i := range titles {
		command := p.novel(fmt.Sprint(i), fmt.Sprint("Title ", i), novel.Fields{})
		if i%2 == 0 {
			command = p.post(fmt.Sprint(i), fmt.Sprint("Title ", i))
		}
		wg.Go(func() {
			if a := replicas[i/2%2].submit(context.Background(), command); a.err == nil {
				created.Add(1)
			} else {
				wantLimited(t, a, ratelimit.Novels, limit)
			}
		})
	}
	wg.Wait()
	if n := created.Load(); n != limit {
		t.Errorf("%d novels are created", n)
	}
	replicas[0].wantCharged(t, limit)
	checkTruth(t, replicas[0].db)
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

// TestUpdatesAreLimited: an update without changes counts; a retry and another integration's novel do not.
func TestUpdatesAreLimited(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	other := newPartner()
	p.NovelUpdatesPerMinute = new(2)
	r.must(t, other.novel("theirs", "Theirs", novel.Fields{}))
	update := func(key, synopsis string) *committer.Command {
		return p.novel(key, "Title", novel.Fields{Synopsis: &synopsis})
	}
	const limited = "error: the limit of 2 novel updates per minute is reached"
	got := r.together(t, update("0", "a"), update("1", "b"), p.novel("foreign", "Theirs", novel.Fields{}),
		update("2", "b"), update("1", "b"), p.post("p", "Title"), other.novel("without a limit", "Theirs", novel.Fields{}))
	want := []string{"created", "updated", "foreign", "updated", "updated replayed", "post", "updated"}
	if diff := cmp.Diff(want, texts(got)); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	r.wantCharged(t, 4) // two creations and two updates
	got = r.together(t, update("3", "c"), update("2", "b"))
	if diff := cmp.Diff([]string{limited, "updated replayed"}, texts(got)); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	wantLimited(t, got[0], ratelimit.NovelUpdates, 2)
	r.want(t, "updated replayed", update("2", "b"))
	p.NovelUpdatesPerMinute = new(3)
	r.want(t, "updated", update("3", "c")) // its key was not used
	r.wantCharged(t, 5)
}

// TestNewLimitCountsAtOnce in each replica, also for comments whose refusal is remembered.
func TestNewLimitCountsAtOnce(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	replicas := []*replica{newReplica(t, url), newReplica(t, url)}
	p := newPartner()
	comments := 0
	for _, tc := range []struct{ limit, stored int }{{2, 2}, {5, 3}, {4, 0}, {0, 0}, {7, 2}, {7, 0}} {
		p.PostsPerMinute = tc.limit
		stored := 0
		for i := range 8 {
			comments++
			if a := replicas[i%2].submit(t.Context(), p.post(fmt.Sprint(comments), "Title")); a.err == nil {
				stored++
			} else {
				wantLimited(t, a, ratelimit.Posts, tc.limit)
			}
		}
		if stored != tc.stored {
			t.Errorf("limit %d: %d comments are stored, want %d", tc.limit, stored, tc.stored)
		}
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

// TestRoundTrips: a transaction is two round trips, and one more when it may create novels. A comment beyond the limit
// costs none once a replica knows, and is not written.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	pool, trips := newCountingPool(t, url)
	r := newReplica(t, url, func(c *committer.Config) { c.Pool = pool })
	p := newPartner()
	p.PostsPerMinute = 5
	warm := p.post("warm", "Title")
	for _, command := range (batch{p.novel("warm", "Title", novel.Fields{}), warm, warm}) {
		r.must(t, command) // prepares the statements
	}
	for i, tc := range []struct {
		command *committer.Command
		want    string
		trips   int64
	}{
		{p.post("a", "Title"), "post", 2},
		{p.post("a", "Title"), "post replayed", 2},
		{p.post("b", "New"), "post", 3},
		{p.novel("n", "Newer", novel.Fields{}), "created", 3},
		{p.novel("u", "Title", novel.Fields{}), "updated", 2},
		{p.novel("u", "Title", novel.Fields{}), "updated replayed", 2},
		{p.post("c", "Title"), "error: the limit of 5 comments per minute is reached", 0},
		{p.post("a", "Title"), "error: the limit of 5 comments per minute is reached", 0},
	} {
		trips.Store(0)
		r.want(t, tc.want, tc.command)
		if n := trips.Load(); n != tc.trips {
			t.Errorf("command %d: %d round trips, want %d", i, n, tc.trips)
		}
	}
}

// TestFailedTransactionGrantsNothing: of a batch that is cut, only the transactions that are committed use permits.
func TestFailedTransactionGrantsNothing(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	testdb.Exec(t, r.db, refuseMarked)
	p.PostsPerMinute, p.NovelsPerMinute = 3, 1
	poison := p.post("poison", "Bad title")
	poison.Comment.ChapterNumber = []byte(`"poison"`)
	answers := r.together(t, poison, p.post("a", "Title"), p.post("b", "Title"), p.post("c", "Title"))
	if !failedBy(answers[0].err, "marked") {
		t.Errorf("poison: %v", answers[0])
	}
	for _, a := range answers[1:] {
		a.want(t, "post")
	}
	if n := r.charged(t, ratelimit.Posts); n != 3 {
		t.Errorf("%d permits are used", n)
	}
	r.wantCharged(t, 1)
	wantLimited(t, r.submit(t.Context(), p.post("d", "Title")), ratelimit.Posts, 3)
	checkTruth(t, r.db)
}

// TestLimitsOfOneIntegration: its commands have limits of their own in one batch with others.
func TestLimitsOfOneIntegration(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	partners := []partner{p, newPartner(), newPartner()}
	r.must(t, p.novel("n", "Title", novel.Fields{}))
	var commands batch
	for i := range 30 {
		q := partners[i%3]
		q.PostsPerMinute = 2 * (i%3 + 1)
		commands = append(commands, q.post(fmt.Sprint(i), "Title"))
	}
	stored := map[uuid.UUID]int{}
	for i, a := range r.together(t, commands...) {
		if a.err == nil {
			stored[commands[i].Caller.IntegrationID]++
		}
	}
	for i, q := range partners {
		if n := stored[q.IntegrationID]; n != 2*(i+1) {
			t.Errorf("integration %d: %d comments are stored", i, n)
		}
	}
	checkTruth(t, r.db)
}
