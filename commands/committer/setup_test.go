package committer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
	"novelgate/internal/title"
)

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }

// replica is a committer with what it stands on.
type replica struct {
	*committer.Committer
	url     string
	pool    *pgxpool.Pool
	permits *purse
	metrics *committer.Metrics
	commits atomic.Int64 // calls of Committed
}

// newReplica starts a committer on the database at url; the end of the test closes it.
func newReplica(t testing.TB, url string, options ...func(*committer.Config)) *replica {
	t.Helper()
	r := &replica{url: url, permits: &purse{}, metrics: committer.NewMetrics()}
	config := committer.Config{
		Permits: r.permits, Logger: slog.New(slog.DiscardHandler), Metrics: r.metrics, Lanes: 2,
		Timeout: patience, Committed: func() { r.commits.Add(1) },
	}
	for _, option := range options {
		option(&config)
	}
	if config.Pool == nil {
		config.Pool = newPool(t, url, config.Lanes)
	}
	r.pool = config.Pool
	r.Committer = committer.New(config)
	t.Cleanup(r.Close)
	return r
}

// patience is the time-out of committers in tests that are not about time.
const patience = time.Minute

func oneLane(c *committer.Config) { c.Lanes = 1 }

func timeout(d time.Duration) func(*committer.Config) {
	return func(c *committer.Config) { c.Timeout = d }
}

// newPool opens a pool with the settings that the service appends with, and other ones.
func newPool(t testing.TB, url string, lanes int, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	pools, err := database.Open(t.Context(), url, lanes, database.DefaultConnections(lanes))
	if err != nil {
		t.Fatalf("open pools: %v", err)
	}
	config := pools.Append.Config()
	pools.Close()
	config.MinConns = 0 // a new connection clears the cache
	for _, apply := range change {
		apply(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("open pool: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// direct opens a pool without special settings, for looking at the database from outside.
func direct(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatalf("open pool: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func newStaff(pool *pgxpool.Pool) *staff.Staff {
	return &staff.Staff{Pool: pool, Actor: "staff:test", Now: time.Now}
}

// partner makes the commands of one integration.
type partner struct{ committer.Caller }

func newPartner() partner {
	return partner{committer.Caller{
		IntegrationID: uuid.New(), KeyID: uuid.New(), MayCreateNovels: true, NovelsPerMinute: 1 << 20, RequestID: "request",
	}}
}

func (p partner) novel(key, spelling string, fields novel.Fields) *committer.UpsertNovel {
	return &committer.UpsertNovel{
		Caller: p.Caller, Key: key, Title: title.Clean(spelling), FoldedTitle: title.Fold(spelling), Fields: fields,
		Canonical: fmt.Append(nil, title.Fold(spelling), deref(fields.Author), deref(fields.Synopsis)),
	}
}

func (p partner) post(key, spelling string) *committer.ImportPost {
	return &committer.ImportPost{
		Caller: p.Caller, Key: key, Title: title.Clean(spelling), FoldedTitle: title.Fold(spelling),
		Import: post.Import{
			IntegrationID: p.IntegrationID, WrittenAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
			Comment: events.Comment{ExternalUUID: "user", Username: "name", Content: "content of " + key},
		},
		Canonical: fmt.Append(nil, title.Fold(spelling)),
	}
}

func (p partner) reply(key, spelling, parent string) *committer.ImportPost {
	cmd := p.post(key, spelling)
	cmd.ParentKey = &parent
	return cmd
}

func deref(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

// purse is a limiter of creations and updates that counts them together. Its zero value grants everything.
type purse struct {
	mu    sync.Mutex
	left  map[uuid.UUID]int // by integration, and for uuid.Nil what all others share; without either there is no limit
	taken int               // granted and not returned
	calls int
	hangs bool
	err   error               // what Take fails with
	hold  func() (grant bool) // called by the next Take
}

func (p *purse) Take(
	ctx context.Context, integration uuid.UUID, operation ratelimit.Operation, limit, n int,
) (ratelimit.Decision, error) {
	p.mu.Lock()
	hold := p.hold
	p.hold = nil
	p.mu.Unlock()
	if hold != nil && !hold() {
		return ratelimit.Decision{Limit: limit, RetryAfter: time.Second}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	if p.hangs {
		<-ctx.Done()
		return ratelimit.Decision{}, fmt.Errorf("wait for permits: %w", ctx.Err())
	}
	if p.err != nil {
		return ratelimit.Decision{}, p.err
	}
	if operation != ratelimit.Novels && operation != ratelimit.NovelUpdates || n < 1 {
		return ratelimit.Decision{}, fmt.Errorf("take %d of %s", n, operation)
	}
	d := ratelimit.Decision{Granted: n, Limit: limit}
	if left, limited := p.left[p.account(integration)]; limited {
		if n > left {
			d.Granted, d.RetryAfter = left, 7*time.Second
		}
		p.left[p.account(integration)] -= d.Granted
	}
	p.taken += d.Granted
	return d, nil
}

func (p *purse) Return(
	_ context.Context, integration uuid.UUID, _ ratelimit.Operation, taken ratelimit.Decision, n int,
) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n < 1 || n > taken.Granted {
		return fmt.Errorf("return %d of %d", n, taken.Granted)
	}
	if _, limited := p.left[p.account(integration)]; limited {
		p.left[p.account(integration)] += n
	}
	p.taken -= n
	return nil
}

// account is whose limit an integration has.
func (p *purse) account(integration uuid.UUID) uuid.UUID {
	if _, own := p.left[integration]; own {
		return integration
	}
	return uuid.Nil
}

// once makes the next Take call hold, and grant nothing if that says so.
func (p *purse) once(hold func() (grant bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = hold
}

// limit sets what is left for an integration, or with uuid.Nil for all others together.
func (p *purse) limit(integration uuid.UUID, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left == nil {
		p.left = map[uuid.UUID]int{}
	}
	p.left[integration] = n
}

func (p *purse) leftOf(integration uuid.UUID) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left[integration]
}

// used is what was granted for good. Permits are returned after the answers, so it closes the committer first.
func (r *replica) used() int {
	r.Close()
	r.permits.mu.Lock()
	defer r.permits.mu.Unlock()
	return r.permits.taken
}

// together hands commands to a one-lane replica so that they form one batch in this order: a first command blocks
// the lane meanwhile. It returns when all are answered.
func (r *replica) together(t testing.TB, commands ...any) []answer {
	t.Helper()
	return r.togetherThen(t, func() {}, commands...)
}

// togetherThen calls prepare when the commands wait and nothing else is under way.
func (r *replica) togetherThen(t testing.TB, prepare func(), commands ...any) []answer {
	t.Helper()
	release := r.occupy(t)
	answers := make([]answer, len(commands))
	var wg sync.WaitGroup
	for i, command := range commands {
		wg.Go(func() { answers[i] = r.submit(context.Background(), command) })
		testdb.Eventually(t, "command waits in its lane", func() bool { return r.QueueDepth() == i+1 })
	}
	prepare()
	release()
	wg.Wait()
	return answers
}

// occupy keeps the lane of a one-lane replica busy, with a creation that is refused and writes nothing, until release
// is called.
func (r *replica) occupy(t testing.TB) (release func()) {
	t.Helper()
	entered, leave, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	r.permits.once(func() bool {
		close(entered)
		<-leave
		return false
	})
	go func() {
		defer close(done)
		p := newPartner()
		var limited *committer.RateLimitedError
		if a := r.submit(context.Background(), p.novel("occupy", "Occupied "+p.KeyID.String(), novel.Fields{})); !errors.As(
			a.err, &limited) {
			t.Errorf("occupy lane: %v", a)
		}
	}()
	<-entered
	return func() {
		close(leave)
		<-done
	}
}

// answer is what a command came to.
type answer struct {
	novel committer.NovelResult
	post  committer.PostResult
	err   error
}

func (r *replica) submit(ctx context.Context, command any) (a answer) {
	switch cmd := command.(type) {
	case *committer.UpsertNovel:
		a.novel, a.err = r.UpsertNovel(ctx, cmd)
	case *committer.ImportPost:
		a.post, a.err = r.ImportPost(ctx, cmd)
	default:
		panic(fmt.Sprintf("no command: %T", command))
	}
	return a
}

func (a answer) String() string {
	switch {
	case a.err != nil:
		return "error: " + a.err.Error()
	case a.post.PostID != uuid.Nil:
		return words("post", a.post.Replayed, "replayed", a.post.Mismatch, "mismatch", a.post.ParentPostID != nil, "threaded")
	default:
		outcome := map[novel.Outcome]string{
			novel.Created: "created", novel.Updated: "updated", novel.Canonical: "canonical", novel.Foreign: "foreign",
		}
		return words(outcome[a.novel.Outcome], a.novel.Replayed, "replayed", a.novel.Mismatch, "mismatch")
	}
}

// words is first and those names whose condition holds.
func words(first string, pairs ...any) string {
	list := []string{first}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i].(bool) { //nolint:forcetypeassert // a test's own arguments
			list = append(list, pairs[i+1].(string)) //nolint:forcetypeassert // a test's own arguments
		}
	}
	return strings.Join(list, " ")
}

// fold is the look-up key of a title.
func fold(spelling string) string { return title.Fold(spelling) }

func ptr[T any](v T) *T { return &v }

func texts(answers []answer) []string {
	list := make([]string, len(answers))
	for i, a := range answers {
		list[i] = a.String()
	}
	return list
}

func (r *replica) conflicts() int { return r.counter("novelgate_committer_conflicts_total") }

func (r *replica) bisections() int { return r.counter("novelgate_committer_bisections_total") }

// counter reads one of the committer's counters, with these values of its labels.
func (r *replica) counter(name string, labels ...string) int {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r.metrics)
	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			if family.GetName() == name && (len(labels) == 0 || series.GetLabel()[0].GetValue() == labels[0]) {
				return int(series.GetCounter().GetValue())
			}
		}
	}
	panic("no metric " + name)
}
