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
	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
	"novelgate/internal/title"
)

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }

// replica is a committer with its database and limiter.
type replica struct {
	*committer.Committer
	url     string
	db      *pgxpool.Pool // a pool with default settings
	pool    *pgxpool.Pool // of the committer
	permits *purse
	metrics *committer.Metrics
	commits atomic.Int64 // calls of Committed
	prompt  bool         // answers must come before patience ends
}

// setup returns a replica with its own database, and a partner.
func setup(t testing.TB, options ...func(*committer.Config)) (*replica, partner) {
	t.Helper()
	return newReplica(t, testdb.New(t), options...), newPartner()
}

// newReplica starts a committer with one lane on the database at url; the end of the test closes it.
func newReplica(t testing.TB, url string, options ...func(*committer.Config)) *replica {
	t.Helper()
	r := &replica{url: url, db: testdb.Pool(t, url), permits: &purse{}, metrics: committer.NewMetrics()}
	config := committer.Config{
		Limiter: r.permits, Breaker: &eventlog.Breaker{Pool: r.db, Logger: slog.New(slog.DiscardHandler)},
		Logger: slog.New(slog.DiscardHandler), Metrics: r.metrics, Lanes: 1,
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

// patience is the time-out of committers in tests without time limits.
const patience = time.Minute

func lanes(n int) func(*committer.Config) { return func(c *committer.Config) { c.Lanes = n } }

func timeout(d time.Duration) func(*committer.Config) {
	return func(c *committer.Config) { c.Timeout = d }
}

// newPool opens a pool with the settings for appends, changed by options.
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

func newStaff(pool *pgxpool.Pool) *staff.Staff {
	return &staff.Staff{Pool: pool, Actor: "staff:test", Now: time.Now}
}

type batch = []*committer.Command

// partner makes the commands of one integration.
type partner struct{ committer.Caller }

func newPartner() partner {
	return partner{committer.Caller{
		IntegrationID: uuid.New(), KeyID: uuid.New(), CanCreateNovels: true, NovelsPerMinute: 1 << 20, RequestID: "request",
	}}
}

func (p partner) novel(key, spelling string, fields novel.Fields) *committer.Command {
	return &committer.Command{
		Caller: p.Caller, Key: key, Title: title.Clean(spelling), FoldedTitle: fold(spelling), Fields: &fields,
		Canonical: fmt.Append(nil, fold(spelling), deref(fields.Author), deref(fields.Synopsis)),
	}
}

func (p partner) post(key, spelling string) *committer.Command {
	return &committer.Command{
		Caller: p.Caller, Key: key, Title: title.Clean(spelling), FoldedTitle: fold(spelling),
		Comment: &committer.Comment{Import: post.Import{
			IntegrationID: p.IntegrationID, WrittenAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
			Comment: events.Comment{ExternalUUID: "user", Username: "name", Content: "content of " + key},
		}},
		Canonical: fmt.Append(nil, fold(spelling)),
	}
}

func (p partner) reply(key, spelling, parent string) *committer.Command {
	cmd := p.post(key, spelling)
	cmd.Comment.ParentKey = &parent
	return cmd
}

func deref(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

// purse is a limiter that counts creations and updates together. Its zero value grants everything.
type purse struct {
	mu    sync.Mutex
	left  *int // nil: there is no limit
	taken int  // granted and not returned
	calls int
	hangs bool
	err   error               // error of Take
	hold  func() (grant bool) // called by the next Take
}

func (p *purse) Take(
	ctx context.Context, _ uuid.UUID, operation ratelimit.Operation, limit, n int,
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
	if p.left != nil {
		if n > *p.left {
			d.Granted, d.RetryAfter = *p.left, 7*time.Second
		}
		*p.left -= d.Granted
	}
	p.taken += d.Granted
	return d, nil
}

func (p *purse) Return(
	_ context.Context, _ uuid.UUID, _ ratelimit.Operation, taken ratelimit.Decision, n int,
) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n < 1 || n > taken.Granted {
		return fmt.Errorf("return %d of %d", n, taken.Granted)
	}
	if p.left != nil {
		*p.left += n
	}
	p.taken -= n
	return nil
}

// once makes the next Take call hold, and grant nothing if hold returns false.
func (p *purse) once(hold func() (grant bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = hold
}

// wantCharged checks the number of permits charged in the end.
func (r *replica) wantCharged(t testing.TB, want int) {
	t.Helper()
	if used := r.used(); used != want {
		t.Errorf("%d creations were charged, want %d", used, want)
	}
}

// used returns the number of permits charged in the end. Permits are returned after the answers, so it closes the
// committer first.
func (r *replica) used() int {
	r.Close()
	r.permits.mu.Lock()
	defer r.permits.mu.Unlock()
	return r.permits.taken
}

// awaitQueue waits until n commands wait in the lanes.
func (r *replica) awaitQueue(t testing.TB, n int) {
	t.Helper()
	testdb.Eventually(t, fmt.Sprint(n, " commands wait"), func() bool { return r.QueueDepth() == n })
}

// together passes commands to a one-lane replica so that they form one batch in this order. It blocks the lane with
// another command meanwhile. It returns when all are answered.
func (r *replica) together(t testing.TB, list ...*committer.Command) []answer {
	t.Helper()
	return r.togetherThen(t, func() {}, list...)
}

// togetherThen also calls prepare when the commands wait and nothing else runs.
func (r *replica) togetherThen(t testing.TB, prepare func(), list ...*committer.Command) []answer {
	t.Helper()
	release := r.occupy(t)
	answers := make([]answer, len(list))
	var wg sync.WaitGroup
	for i, command := range list {
		wg.Go(func() { answers[i] = r.submit(context.Background(), command) })
		r.awaitQueue(t, i+1)
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

// answer is the result of a command.
type answer struct {
	committer.Result
	err error
	key string
}

func (r *replica) submit(ctx context.Context, cmd *committer.Command) answer {
	result, err := r.Execute(ctx, cmd)
	return answer{result, err, cmd.Key}
}

// want compares the answer's String.
func (a answer) want(t testing.TB, want any) answer {
	t.Helper()
	refusal, _ := want.(error)
	if text, ok := want.(string); ok && a.String() != text || !ok && !errors.Is(a.err, refusal) {
		t.Errorf("%s: %v, want %v", a.key, a, want)
	}
	return a
}

// want submits a command and compares the answer's String.
func (r *replica) want(t testing.TB, want any, cmd *committer.Command) answer {
	t.Helper()
	start := time.Now()
	a := r.submit(context.Background(), cmd).want(t, want)
	if took := time.Since(start); r.prompt && took > late {
		t.Errorf("the answer took %s", took)
	}
	return a
}

// must submits a command that must succeed.
func (r *replica) must(t testing.TB, cmd *committer.Command) answer {
	t.Helper()
	a := r.submit(t.Context(), cmd)
	if a.err != nil {
		t.Fatalf("%s: %v", cmd.Key, a)
	}
	return a
}

func (a answer) String() string {
	switch {
	case a.err != nil:
		return "error: " + a.err.Error()
	case a.PostID != uuid.Nil:
		return words("post", a.Replayed, "replayed", a.Mismatch, "mismatch", a.ParentPostID != nil, "threaded")
	default:
		return words(a.Outcome.String(), a.Replayed, "replayed", a.Mismatch, "mismatch")
	}
}

// words returns first and the names whose condition holds.
func words(first string, pairs ...any) string {
	list := []string{first}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i].(bool) {
			list = append(list, pairs[i+1].(string))
		}
	}
	return strings.Join(list, " ")
}

// fold is the look-up key of a title.
func fold(spelling string) string { return title.Fold(spelling) }

func texts(answers []answer) []string {
	list := make([]string, len(answers))
	for i, a := range answers {
		list[i] = a.String()
	}
	return list
}

func (r *replica) conflicts() int { return r.counter("novelgate_committer_conflicts_total") }

func (r *replica) bisections() int { return r.counter("novelgate_committer_bisections_total") }

// counter returns the value of a counter with these label values.
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
