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
	metrics *committer.Metrics
	commits atomic.Int64 // calls of Committed
	prompt  bool         // answers must come before patience ends
}

// setup returns a replica with its own database, and a partner.
func setup(t testing.TB, options ...func(*committer.Config)) (*replica, partner) {
	t.Helper()
	return newReplica(t, testdb.New(t), options...), newPartner()
}

// newReplica starts a committer on the database at url; the end of the test closes it.
func newReplica(t testing.TB, url string, options ...func(*committer.Config)) *replica {
	t.Helper()
	r := &replica{url: url, db: testdb.Pool(t, url), metrics: committer.NewMetrics()}
	config := committer.Config{
		Limiter: ratelimit.New(time.Now), Breaker: &eventlog.Breaker{Pool: r.db, Logger: slog.New(slog.DiscardHandler)},
		Logger: slog.New(slog.DiscardHandler), Metrics: r.metrics,
		Timeout: patience, Committed: func() { r.commits.Add(1) },
	}
	for _, option := range options {
		option(&config)
	}
	if config.Pool == nil {
		config.Pool = newPool(t, url)
	}
	r.pool = config.Pool
	r.Committer = committer.New(config)
	t.Cleanup(r.Close)
	return r
}

// patience is the time-out of committers in tests without time limits.
const patience = time.Minute

func timeout(d time.Duration) func(*committer.Config) {
	return func(c *committer.Config) { c.Timeout = d }
}

// newPool opens a pool with the settings for appends, changed by options.
func newPool(t testing.TB, url string, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	pools := testdb.Must(database.Open(t.Context(), url))(t)
	config := pools.Append.Config()
	pools.Close()
	config.MinConns = 0 // a test counts connections and round trips
	for _, apply := range change {
		apply(config)
	}
	pool := testdb.Must(pgxpool.NewWithConfig(t.Context(), config))(t)
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
	id := uuid.New()
	return partner{committer.Caller{
		IntegrationID: id, AuthorKey: testdb.AuthorKey(id), KeyID: uuid.New(), CanCreateNovels: true, RequestID: "request",
		PostsPerMinute: 1 << 20, NovelsPerMinute: 1 << 20, LinesPerMinute: 1 << 20,
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

func (p partner) postBy(external, key, spelling string) *committer.Command {
	cmd := p.post(key, spelling)
	cmd.Comment.Comment.ExternalUUID = external
	return cmd
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

// wantCharged checks how many creations of novels are charged.
func (r *replica) wantCharged(t testing.TB, want int) {
	t.Helper()
	if used := r.charged(t, ratelimit.Novels); used != want {
		t.Errorf("%d creations are charged, want %d", used, want)
	}
}

// charged returns the number of permits of operations that all integrations have used.
func (r *replica) charged(t testing.TB, operations ...ratelimit.Operation) int {
	t.Helper()
	return testdb.Value[int](t, r.db, `SELECT coalesce(sum(permits), 0) FROM rate_limits WHERE operation = ANY ($1)`,
		operations)
}

// together passes commands to a replica so that they form one batch in this order. It returns when all are answered.
func (r *replica) together(t testing.TB, list ...*committer.Command) []answer {
	t.Helper()
	return r.togetherThen(t, func() {}, list...)
}

// togetherThen also calls prepare when the commands wait and nothing else runs.
func (r *replica) togetherThen(t testing.TB, prepare func(), list ...*committer.Command) []answer {
	t.Helper()
	release := r.occupy(t)
	waiting := make([]<-chan answer, len(list))
	for i, command := range list {
		waiting[i] = r.queue(t, command)
	}
	prepare()
	release()
	answers := make([]answer, len(list))
	for i := range waiting {
		answers[i] = <-waiting[i]
	}
	return answers
}

// occupy makes another session hold the lock of the log until release is called. A batch of one command waits for the
// lock, and all later commands wait in the queue and form one batch. The command is refused and writes nothing.
func (r *replica) occupy(t testing.TB) (release func()) {
	t.Helper()
	unlock := hold(t, r.url)
	p := newPartner()
	p.CanCreateNovels = false
	first := r.queue(t, line(p.post("occupy", "Unknown "+p.KeyID.String()))) // no test counts lines of others
	awaitWaiters(t, r.db, 1)
	return func() {
		unlock()
		(<-first).want(t, post.ErrNovelNotFound)
	}
}

// hold makes another session hold the lock of the log until release is called.
func hold(t testing.TB, url string) (release func()) {
	t.Helper()
	conn, ended := testdb.Connect(t, url), make(chan struct{})
	go func() {
		defer close(ended)
		var batch pgx.Batch
		batch.Queue("begin")
		eventlog.Lock(&batch)
		batch.Queue("SELECT pg_sleep(600)") // a breaker ends an idle session
		_ = conn.SendBatch(context.Background(), &batch).Close()
	}()
	pool := testdb.Pool(t, url)
	testdb.Eventually(t, "the lock is held", func() bool { return advisoryLocks(t, pool, true) == 1 })
	release = sync.OnceFunc(func() {
		testdb.Eventually(t, "the lock is free", func() bool {
			testdb.Exec(t, pool, `SELECT pg_cancel_backend($1::integer)`, conn.PgConn().PID())
			select {
			case <-ended:
				return true
			case <-time.After(10 * time.Millisecond): // the signal came between two statements
				return false
			}
		})
	})
	t.Cleanup(release)
	return release
}

// awaitQueue waits until n commands wait in the queue.
func (r *replica) awaitQueue(t testing.TB, n int) {
	t.Helper()
	testdb.Eventually(t, fmt.Sprint(n, " commands wait"), func() bool { return r.QueueDepth() == n })
}

// awaitWaiters returns when n sessions wait for the lock of the log.
func awaitWaiters(t testing.TB, pool *pgxpool.Pool, n int) {
	t.Helper()
	testdb.Eventually(t, fmt.Sprint(n, " sessions wait for the lock"), func() bool {
		return advisoryLocks(t, pool, false) == n
	})
}

func advisoryLocks(t testing.TB, pool *pgxpool.Pool, granted bool) int {
	t.Helper()
	return testdb.Value[int](t, pool, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted = $1
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, granted)
}

// start submits a command in the background.
func (r *replica) start(command *committer.Command) <-chan answer {
	answers := make(chan answer, 1)
	go func() { answers <- r.submit(context.Background(), command) }()
	return answers
}

// queue is start for commands whose order matters: it returns once the command is in the queue.
func (r *replica) queue(t testing.TB, command *committer.Command) <-chan answer {
	t.Helper()
	submitted, err := r.Submit(t.Context(), command)
	answers := make(chan answer, 1)
	if err != nil {
		answers <- answer{committer.Result{}, err, command.Key}
		return answers
	}
	go func() {
		result, err := submitted.Wait(context.Background())
		answers <- answer{result, err, command.Key}
	}()
	return answers
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
	case a.PostID != uuid.Nil && a.ThreadID == uuid.Nil:
		return words("changed", a.Superseded, "superseded", a.Replayed, "replayed", a.Mismatch, "mismatch")
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

// wantAnswers compares the String of each answer.
func wantAnswers(t testing.TB, answers []answer, want ...string) {
	t.Helper()
	got := make([]string, len(answers))
	for i, a := range answers {
		got[i] = a.String()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

func (r *replica) bisections(t testing.TB) int {
	t.Helper()
	return int(testdb.Metric(t, r.metrics, "novelgate_committer_bisections_total"))
}
