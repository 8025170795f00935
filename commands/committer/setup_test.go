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

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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
	"novelgate/projections"
)

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }

// replica is a committer with what it stands on.
type replica struct {
	*committer.Committer
	url     string
	db      *pgxpool.Pool // without special settings, to look at the database from outside
	pool    *pgxpool.Pool // of the committer
	permits *purse
	metrics *committer.Metrics
	commits atomic.Int64 // calls of Committed
	prompt  bool         // answers must not be late
}

// setup returns a replica with a database of its own, and a partner.
func setup(t testing.TB, options ...func(*committer.Config)) (*replica, partner) {
	t.Helper()
	return newReplica(t, testdb.New(t), options...), newPartner()
}

// newReplica starts a committer with one lane on the database at url; the end of the test closes it.
func newReplica(t testing.TB, url string, options ...func(*committer.Config)) *replica {
	t.Helper()
	r := &replica{url: url, db: direct(t, url), permits: &purse{}, metrics: committer.NewMetrics()}
	config := committer.Config{
		Permits: r.permits, Logger: slog.New(slog.DiscardHandler), Metrics: r.metrics, Lanes: 1,
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

func lanes(n int) func(*committer.Config) { return func(c *committer.Config) { c.Lanes = n } }

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

type batch = []*committer.Command

// partner makes the commands of one integration.
type partner struct{ committer.Caller }

func newPartner() partner {
	return partner{committer.Caller{
		IntegrationID: uuid.New(), KeyID: uuid.New(), MayCreateNovels: true, NovelsPerMinute: 1 << 20, RequestID: "request",
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

// purse is a limiter of creations and updates that counts them together. Its zero value grants everything.
type purse struct {
	mu    sync.Mutex
	left  *int // nil: there is no limit
	taken int  // granted and not returned
	calls int
	hangs bool
	err   error               // what Take fails with
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

// once makes the next Take call hold, and grant nothing if that says so.
func (p *purse) once(hold func() (grant bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = hold
}

// wantCharged fails unless so many creations were charged for good.
func (r *replica) wantCharged(t testing.TB, want int) {
	t.Helper()
	if used := r.used(); used != want {
		t.Errorf("%d creations were charged, want %d", used, want)
	}
}

// used is what was granted for good. Permits are returned after the answers, so it closes the committer first.
func (r *replica) used() int {
	r.Close()
	r.permits.mu.Lock()
	defer r.permits.mu.Unlock()
	return r.permits.taken
}

// awaitQueue waits until so many commands wait in the lanes.
func (r *replica) awaitQueue(t testing.TB, n int) {
	t.Helper()
	testdb.Eventually(t, fmt.Sprint(n, " commands wait"), func() bool { return r.QueueDepth() == n })
}

// together hands commands to a one-lane replica so that they form one batch in this order: a first command blocks
// the lane meanwhile. It returns when all are answered.
func (r *replica) together(t testing.TB, list ...*committer.Command) []answer {
	t.Helper()
	return r.togetherThen(t, func() {}, list...)
}

// togetherThen calls prepare when the commands wait and nothing else is under way.
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

// answer is what a command came to.
type answer struct {
	committer.Result
	err error
	key string
}

func (r *replica) submit(ctx context.Context, cmd *committer.Command) answer {
	result, err := r.Execute(ctx, cmd)
	return answer{result, err, cmd.Key}
}

// want fails unless the answer is as its String says, or has an error.
func (a answer) want(t testing.TB, want any) answer {
	t.Helper()
	refusal, _ := want.(error)
	if text, ok := want.(string); ok && a.String() != text || !ok && !errors.Is(a.err, refusal) {
		t.Errorf("%s: %v, want %v", a.key, a, want)
	}
	return a
}

// want submits a command and checks its answer.
func (r *replica) want(t testing.TB, want any, cmd *committer.Command) answer {
	t.Helper()
	start := time.Now()
	a := r.submit(context.Background(), cmd).want(t, want)
	if took := time.Since(start); r.prompt && took > late {
		t.Errorf("the answer took %s", took)
	}
	return a
}

// must submits a command that has to succeed.
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

// readLog returns all events in log order.
func readLog(t testing.TB, pool *pgxpool.Pool) []events.Recorded {
	t.Helper()
	var log []events.Recorded
	var after events.Position
	for {
		batch, err := eventlog.ReadAfter(context.Background(), pool, after, 1000)
		if err != nil {
			t.Fatalf("read log: %v", err)
		}
		if len(batch) == 0 {
			return log
		}
		log = append(log, batch...)
		after = batch[len(batch)-1].Position
	}
}

// settledLog waits until no transaction hides events, on this or another test's database, and reads the log.
func settledLog(t testing.TB, pool *pgxpool.Pool) []events.Recorded {
	t.Helper()
	var stored int
	if err := pool.QueryRow(context.Background(), `SELECT count(*) FROM events`).Scan(&stored); err != nil {
		t.Fatalf("count events: %v", err)
	}
	var log []events.Recorded
	testdb.Eventually(t, "all events are settled", func() bool {
		log = readLog(t, pool)
		return len(log) == stored
	})
	return log
}

// checkTruth verifies what holds for every log, however it came about, and returns it.
func checkTruth(t testing.TB, pool *pgxpool.Pool) []events.Recorded {
	t.Helper()
	log := settledLog(t, pool)
	versions := map[uuid.UUID]int{}
	sources := map[[2]string]int{}
	folded := map[string]uuid.UUID{}
	threads := map[uuid.UUID]uuid.UUID{}
	slugs := map[string]string{}
	disorder := 0
	for _, recorded := range log {
		// In log order every stream counts 1, 2, 3, …: that is contiguity and order at once.
		if versions[recorded.StreamID]++; versions[recorded.StreamID] != recorded.StreamVersion {
			disorder++
		}
		if sources[[2]string{recorded.Source, recorded.ID}]++; sources[[2]string{recorded.Source, recorded.ID}] > 1 {
			t.Errorf("two events %s %s", recorded.Source, recorded.ID)
		}
		switch e := recorded.Event.(type) {
		case events.NovelCreated:
			if other, ok := folded[fold(e.Title)]; ok {
				t.Errorf("title %q was created as %s and %s", e.Title, other, recorded.StreamID)
			}
			folded[fold(e.Title)] = recorded.StreamID
			if other, ok := slugs[e.Slug]; ok && other != fold(e.Title) {
				t.Errorf("%q and %q have the slug %s", e.Title, other, e.Slug)
			}
			slugs[e.Slug] = fold(e.Title)
		case events.ThreadOpened:
			if other, ok := threads[e.NovelID]; ok {
				t.Errorf("novel %s has threads %s and %s", e.NovelID, other, recorded.StreamID)
			}
			threads[e.NovelID] = recorded.StreamID
		case events.PostImported:
			if threads[e.NovelID] != e.ThreadID {
				t.Errorf("post %s is in thread %s, the novel's is %s", recorded.StreamID, e.ThreadID, threads[e.NovelID])
			}
		default:
		}
	}
	if disorder > 0 {
		t.Errorf("%d of %d events are out of order in their stream", disorder, len(log))
	}
	checkReplay(t, pool, log)
	return log
}

// checkReplay compares the inline projections with those that a fresh database gets from the log.
func checkReplay(t testing.TB, pool *pgxpool.Pool, log []events.Recorded) {
	t.Helper()
	fresh := direct(t, testdb.New(t))
	for start := 0; start < len(log); start += 500 {
		part := log[start:min(start+500, len(log))]
		err := pgx.BeginFunc(context.Background(), fresh, func(tx pgx.Tx) error {
			for _, projection := range []projections.Projection{projections.Titles{}, projections.Threads{}} {
				if err := projection.Apply(context.Background(), tx, part); err != nil {
					return fmt.Errorf("apply %s: %w", projection.Name(), err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatalf("replay: %v", err)
		}
	}
	for _, table := range []string{"title_lookup", "threads"} {
		if diff := cmp.Diff(rows(t, fresh, table), rows(t, pool, table)); diff != "" {
			t.Errorf("%s differs from a replay (-replay +inline):\n%s", table, diff)
		}
	}
}

// rows returns a table, one line of text per row, sorted.
func rows(t testing.TB, pool *pgxpool.Pool, table string) []string {
	t.Helper()
	found, err := pool.Query(context.Background(),
		`SELECT x::text FROM `+pgx.Identifier{table}.Sanitize()+` AS x ORDER BY 1`)
	if err != nil {
		t.Fatalf("read %s: %v", table, err)
	}
	list, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("read %s: %v", table, err)
	}
	return list
}

// deadlocks is how many the server has found in this database.
func deadlocks(t testing.TB, pool *pgxpool.Pool) (n int) {
	t.Helper()
	if err := pool.QueryRow(context.Background(),
		`SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&n); err != nil {
		t.Fatalf("count deadlocks: %v", err)
	}
	return n
}
