package imports_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"novelgate/commands"
	"novelgate/commands/committer"
	"novelgate/commands/imports"
	"novelgate/commands/ratelimit"
	"novelgate/commands/request"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/problem"
	"novelgate/internal/testdb"
)

// fixture is a database and a worker whose visits the test makes, one after another. It is the worker's limiter, and
// stands before its committer.
type fixture struct {
	*committer.Committer
	pool   *pgxpool.Pool
	worker *imports.Worker

	permits  int          // left
	take     func() error // called by each Take, whose error it returns
	commands int          // that still reach the committer, before the worker loses its lease
	refusals int          // of the next commands, which must be retried
}

func setup(t *testing.T) *fixture {
	t.Helper()
	pools := testdb.Must(database.Open(t.Context(), testdb.New(t), database.DefaultConnections))(t)
	t.Cleanup(pools.Close)
	f := &fixture{pool: pools.General}
	f.Committer = committer.New(committer.Config{
		Pool: pools.Append, Limiter: ratelimit.New(time.Now),
		Breaker: &eventlog.Breaker{Pool: pools.General, Logger: slog.New(slog.DiscardHandler)},
		Logger:  slog.New(slog.DiscardHandler), Timeout: time.Minute,
	})
	t.Cleanup(f.Close)
	f.worker = imports.NewWorker(&imports.Store{Pool: pools.General, Retention: time.Hour})
	f.worker.Committer, f.worker.Limiter, f.worker.Now = f, f, time.Now
	f.worker.Logger, f.worker.Metrics = slog.New(slog.DiscardHandler), imports.NewMetrics()
	f.worker.Problem = func(err error) *problem.Error {
		if p := commands.Problem(err); p != nil {
			return p
		}
		return problem.From(err)
	}
	f.calm()
	return f
}

// calm ends all interruptions: there are permits, and no worker fails.
func (f *fixture) calm() {
	f.permits, f.commands = 1_000_000, 1_000_000
	f.take = func() error { return nil }
}

// Take implements imports.Limiter.
func (f *fixture) Take(
	_ context.Context, _ database.Beginner, _ ratelimit.Key, _, n int,
) (d ratelimit.Decision, err error) {
	if err := f.take(); err != nil {
		return d, err
	}
	if d.Granted = min(n, f.permits); d.Granted < n {
		d.RetryAfter = time.Minute
	}
	f.permits -= d.Granted
	return d, nil
}

// Return implements imports.Limiter.
func (f *fixture) Return(_ context.Context, _ database.Execer, _ ratelimit.Key, _ ratelimit.Decision, n int) error {
	f.permits += n
	return nil
}

// Submit implements imports.Committer.
func (f *fixture) Submit(ctx context.Context, cmd *committer.Command) (committer.Submitted, error) {
	if f.commands == 0 {
		return committer.Submitted{}, committer.ErrOtherServer
	}
	if f.refusals > 0 {
		f.refusals--
		return committer.Submitted{}, committer.ErrQueueFull
	}
	f.commands--
	return f.Committer.Submit(ctx, cmd)
}

// integration registers an integration.
func (f *fixture) integration(t *testing.T) uuid.UUID {
	t.Helper()
	id := uuid.New()
	testdb.Exec(t, f.pool, `INSERT INTO integrations (integration_id, name, enabled, can_create_novels, can_post, can_import,
    posts_per_minute, novels_per_minute, lines_per_minute, review, stream_version, registered_at)
VALUES ($1, $1::uuid::text, true, true, true, true, 0, 0, 60000, false, 1, now())`, id)
	return id
}

// spool stores chunks of lines as a complete import.
func (f *fixture) spool(t *testing.T, integration uuid.UUID, chunks ...string) uuid.UUID {
	t.Helper()
	return testdb.Must(f.worker.Store.Spool(t.Context(), integration, chunks...))(t)
}

// visit makes a worker visit a chunk or advance the imports. It returns false when there was nothing to do.
func (f *fixture) visit(t *testing.T) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	take := f.take
	defer func() { f.take = take }()
	f.take = func() error {
		err := take()
		if errors.Is(err, errShutdown) {
			cancel()
		}
		return err
	}
	return testdb.Must(f.worker.Step(ctx, uuid.New()))(t)
}

// errShutdown is the error of a Take during which the service shuts down.
var errShutdown = errors.New("shutting down")

// pass lets the pauses of imports and the leases of chunks end.
func (f *fixture) pass(t *testing.T) {
	t.Helper()
	testdb.Exec(t, f.pool, `UPDATE imports SET resume_at = '-infinity' WHERE ended_at IS NULL`)
	testdb.Exec(t, f.pool, `UPDATE import_chunks SET leased_until = '-infinity' WHERE holder IS NOT NULL`)
}

// finish executes all remaining lines.
func (f *fixture) finish(t *testing.T) {
	t.Helper()
	f.calm()
	testdb.Exec(t, f.pool, `UPDATE imports SET spooled = spooled + 7 WHERE ended_at IS NULL`) // by another version
	for n := 0; f.working(t); n++ {
		if n == 500 {
			t.Fatal("the imports do not end")
		}
		f.pass(t)
		f.visit(t)
	}
	f.wantMeasured(t)
}

// wantMeasured fails if an import has another size in the spool than its lines.
func (f *fixture) wantMeasured(t *testing.T) {
	t.Helper()
	wrong := testdb.Values[string](t, f.pool, `SELECT concat_ws(' ', i.import_id, i.spooled, c.size)
FROM imports AS i JOIN (SELECT import_id, sum(octet_length(body)) AS size FROM import_chunks GROUP BY import_id) AS c
    USING (import_id) WHERE i.spooled <> c.size`)
	if len(wrong) > 0 {
		t.Errorf("imports with the size that they are said to have, and the one that they have: %q", wrong)
	}
}

// working reports whether an import has not ended.
func (f *fixture) working(t *testing.T) bool {
	t.Helper()
	return testdb.Value[bool](t, f.pool, `SELECT EXISTS (SELECT FROM imports WHERE ended_at IS NULL)`)
}

// parents returns the keys of the comments of an integration with those of their parents; "" for top-level comments.
func (f *fixture) parents(t *testing.T, integration uuid.UUID) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, pair := range testdb.Values[[]string](t, f.pool, `SELECT ARRAY[c.event_id, coalesce(p.event_id, '')] FROM events AS c
    LEFT JOIN events AS p ON p.stream_id = (c.data->>'parentPostId')::uuid AND p.stream_version = 1
WHERE c.integration_id = $1 AND c.event_type = 'post.imported.v1'`, integration) {
		found[pair[0]] = pair[1]
	}
	return found
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

// TestInterruptedFinalRound: a visit of the final round ends before a line that is ready is executed. A reply to this
// line still waits for it.
func TestInterruptedFinalRound(t *testing.T) {
	t.Parallel()
	for name, interrupt := range map[string]func(f *fixture){
		"no permits":        func(f *fixture) { f.permits = 0 },
		"a shutdown":        func(f *fixture) { f.take = func() error { return errShutdown } },
		"a lost lease":      func(f *fixture) { f.commands = 0 },
		"a failing limiter": func(f *fixture) { f.take = func() error { f.calm(); return errors.New("no database") } },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			integration := f.integration(t)
			f.spool(t, integration, comment("child", "orphan", "c")+comment("orphan", "missing", "c"))
			for !testdb.Value[bool](t, f.pool, `SELECT final FROM imports`) {
				f.visit(t)
			}
			interrupt(f)
			for range 10 {
				f.visit(t)
			}
			f.finish(t)
			if diff := cmp.Diff(map[string]string{"child": "orphan", "orphan": ""}, f.parents(t, integration)); diff != "" {
				t.Errorf("parents (-want +got)\n%s", diff)
			}
		})
	}
}

// TestRepliesOfAnOpenImport wait however many rounds pass without progress: their parents may still be uploaded.
func TestRepliesOfAnOpenImport(t *testing.T) {
	t.Parallel()
	f := setup(t)
	integration := f.integration(t)
	id := f.spool(t, integration, comment("child", "parent", "c"))
	testdb.Exec(t, f.pool, `UPDATE imports SET state = 'open'`)
	for range 10 {
		testdb.Exec(t, f.pool, `UPDATE imports SET advanced_at = '-infinity'`) // the pause between rounds has passed
		f.visit(t)
	}
	if rounds := testdb.Value[int](t, f.pool, `SELECT round FROM imports`); rounds < 3 {
		t.Errorf("%d rounds", rounds)
	}
	if stored := f.parents(t, integration); len(stored) > 0 {
		t.Errorf("stored while the import is open: %v", stored)
	}
	f.spool(t, integration, comment("parent", "", "c"))
	testdb.Exec(t, f.pool, `UPDATE imports SET state = 'processing' WHERE import_id = $1`, id)
	f.finish(t)
	if diff := cmp.Diff(map[string]string{"child": "parent", "parent": ""}, f.parents(t, integration)); diff != "" {
		t.Errorf("parents (-want +got)\n%s", diff)
	}
}

// TestChunksAwaitUpserts: in the first round, a chunk with upserts waits for all earlier chunks, and later chunks wait
// for it.
func TestChunksAwaitUpserts(t *testing.T) {
	t.Parallel()
	upsert := `{"operation":"novels","idempotencyKey":"upsert","body":{"novel":"N"}}` + "\n"
	for name, chunks := range map[string][]string{
		"an upsert before a comment": {upsert, comment("comment", "", "c")},
		"an upsert behind a comment": {comment("comment", "", "c"), upsert},
		"an upsert before an upsert": {upsert, strings.Replace(upsert, `"upsert"`, `"another"`, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			f.spool(t, f.integration(t), chunks...)
			testdb.Exec(t, f.pool, `UPDATE import_chunks SET holder = gen_random_uuid(), leased_until = 'infinity'
    WHERE first_line = 0`)
			if f.visit(t) {
				t.Error("the second chunk was visited before the first one, which another worker has leased")
			}
			f.finish(t)
		})
	}
}

// TestALostLease: a worker that has lost its lease saves no outcome. The next visit finds it.
func TestALostLease(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.spool(t, f.integration(t), comment("k", "", "c"))
	f.take = func() error {
		testdb.Exec(t, f.pool, `UPDATE import_chunks SET holder = gen_random_uuid(), leased_until = 'infinity'`)
		return nil
	}
	f.visit(t)
	const outcomes = `SELECT created + replayed FROM imports`
	if n := testdb.Value[int](t, f.pool, outcomes); n != 0 {
		t.Errorf("%d outcomes are saved without the lease", n)
	}
	f.finish(t)
	if n := testdb.Value[int](t, f.pool, outcomes); n != 1 {
		t.Errorf("%d outcomes of one line", n)
	}
}

// TestReturnedPermitsAreFree: an import that returns some of the last permits goes on with them, and does not pause.
func TestReturnedPermitsAreFree(t *testing.T) {
	t.Parallel()
	const lines = 6
	f := setup(t)
	f.worker.Limiter = ratelimit.New(time.Now)
	integration := f.integration(t)
	testdb.Exec(t, f.pool, `UPDATE integrations SET lines_per_minute = $1`, lines)
	var text strings.Builder
	want := map[string]string{}
	for n := range lines { // each one waits for the next
		key, parent := fmt.Sprint(n), fmt.Sprint(n+1)
		if n == lines-1 {
			parent = ""
		}
		text.WriteString(comment(key, parent, "c"))
		want[key] = parent
	}
	f.spool(t, integration, text.String())
	for f.visit(t) {
		if testdb.Value[bool](t, f.pool, `SELECT resume_at > now() FROM imports`) {
			t.Fatal("the import pauses")
		}
	}
	if diff := cmp.Diff(want, f.parents(t, integration)); diff != "" {
		t.Errorf("parents (-want +got)\n%s", diff)
	}
	if n := testdb.Value[int](t, f.pool, `SELECT sum(permits) FROM rate_limits`); n != lines {
		t.Errorf("%d permits are used", n)
	}
}

// TestIdleChunksTakeTurns: an import whose chunks only wait delays another one by no more than a visit for each of its
// visits.
func TestIdleChunksTakeTurns(t *testing.T) {
	t.Parallel()
	const chunks = 6
	f := setup(t)
	integration := f.integration(t)
	var waiting, ready []string
	for n := range chunks {
		// A cycle, which waits in all rounds but the final one.
		waiting = append(waiting, comment(fmt.Sprint("waits-", n), fmt.Sprint("waits-", (n+1)%chunks), "c"))
		ready = append(ready, comment(fmt.Sprint("ready-", n), "", "c"))
	}
	f.spool(t, integration, waiting...)
	for f.visit(t); testdb.Value[int](t, f.pool, `SELECT round FROM imports`) == 0; {
		f.visit(t)
	}
	f.spool(t, integration, ready...)
	for range chunks {
		f.visit(t)
	}
	if stored := len(f.parents(t, integration)); stored < chunks/2 {
		t.Errorf("%d of %d ready lines are stored after %d visits", stored, chunks, chunks)
	}
	f.finish(t)
}

// TestIntegrationsTakeTurns: an integration with several imports does not delay one with a single import more.
func TestIntegrationsTakeTurns(t *testing.T) {
	t.Parallel()
	const chunks, visits = 6, 8
	f := setup(t)
	many, one := f.integration(t), f.integration(t)
	spool := func(integration uuid.UUID, name string) {
		var lines []string
		for n := range chunks {
			lines = append(lines, comment(fmt.Sprint(name, "-", n), "", "c"))
		}
		f.spool(t, integration, lines...)
	}
	for n := range 4 {
		spool(many, fmt.Sprint("import-", n))
	}
	spool(one, "import")
	for range visits {
		f.visit(t)
	}
	if stored := len(f.parents(t, one)); stored != visits/2 {
		t.Errorf("%d lines of the single import are stored after %d visits, want %d", stored, visits, visits/2)
	}
	f.finish(t)
}

// TestRefusedLinesAreRetried: the committer refuses the first upserts of some titles. Each line has one outcome, and
// the last upsert of each title wins.
func TestRefusedLinesAreRetried(t *testing.T) {
	t.Parallel()
	const titles, versions = 5, 4
	f := setup(t)
	f.refusals = 2
	integration := f.integration(t)
	var lines strings.Builder
	for n := range titles * versions {
		fmt.Fprintf(&lines, `{"operation":"novels","idempotencyKey":"%d","body":{"novel":"Title %d","synopsis":"Version %d."}}`+"\n",
			n, n%titles, n/titles)
	}
	id := f.spool(t, integration, lines.String())
	f.visit(t)
	f.finish(t)
	i, err := f.worker.Store.Find(t.Context(), integration, id)
	if err != nil || f.refusals > 0 || i.Created != titles || i.Updated != titles*(versions-1) {
		t.Errorf("import %+v, %v", i, err)
	}
	synopses := testdb.Values[string](t, f.pool, `SELECT DISTINCT ON (stream_id) data->>'synopsis' FROM events
WHERE event_type = 'novel.updated.v1' ORDER BY stream_id, stream_version DESC`)
	if want := slices.Repeat([]string{fmt.Sprintf("Version %d.", versions-1)}, titles); !slices.Equal(synopses, want) {
		t.Errorf("synopses %q", synopses)
	}
}

// TestLiveCommandsWithTheKeysOfAnImport: live requests have the keys of an import, at the same moment. Each comment is
// stored once, and one of both has created it.
func TestLiveCommandsWithTheKeysOfAnImport(t *testing.T) {
	t.Parallel()
	const lines = 300
	f := setup(t)
	integration := f.integration(t)
	var text strings.Builder
	for n := range lines {
		text.WriteString(comment(fmt.Sprint(n), "", "c"))
	}
	id := f.spool(t, integration, text.String())
	post := testdb.Must(request.DecodePost([]byte(`{"uuid":"u","username":"n","novel":"N","content":"c"}`), time.Now()))(t)
	caller := committer.Caller{
		IntegrationID: integration, KeyID: uuid.New(), CanCreateNovels: true, Unlimited: true, RequestID: "live",
	}
	var live sync.WaitGroup
	var created, replayed atomic.Int64
	for n := range lines {
		live.Go(func() {
			got, err := f.Execute(t.Context(), committer.NewImportPost(caller, fmt.Sprint(n), &post))
			switch {
			case err != nil:
				t.Errorf("%d: %v", n, err)
			case got.Mismatch:
				t.Errorf("%d is another command", n)
			case got.Replayed:
				replayed.Add(1)
			default:
				created.Add(1)
			}
		})
	}
	f.visit(t)
	live.Wait()
	f.finish(t)
	i, err := f.worker.Store.Find(t.Context(), integration, id)
	if err != nil || i.Created != replayed.Load() || i.Replayed != created.Load() || i.Created+i.Replayed != lines {
		t.Errorf("%d created and %d replayed live; import %+v, %v", created.Load(), replayed.Load(), i, err)
	}
	if stored := len(f.parents(t, integration)); stored != lines {
		t.Errorf("%d comments are stored", stored)
	}
}

// reply is a line of TestRepliesOfInterruptedImports. Its key is unique, unless it repeats an earlier line.
type reply struct {
	key, parent string
	bad         bool
}

// drawReplies draws lines, some of which are replies to others, fail or repeat an earlier line.
func drawReplies(rt *rapid.T, name string) (lines []reply) {
	n := rapid.IntRange(1, 8).Draw(rt, "lines of "+name)
	key := func(k int) string { return fmt.Sprint(name, "-", k) }
	for k := range n {
		l := reply{key: key(k)}
		switch rapid.SampledFrom([]string{"reply", "orphan", "repeated", "bad", "top-level"}).Draw(rt, "kind") {
		case "reply":
			l.parent = key(rapid.IntRange(0, n-1).Draw(rt, "parent"))
		case "orphan":
			l.parent = "missing"
		case "repeated":
			if k > 0 {
				l = lines[rapid.IntRange(0, k-1).Draw(rt, "line")]
			}
		case "bad":
			l.bad = true
		}
		lines = append(lines, l)
	}
	return lines
}

// expected returns the parents of the comments of lines. The first line of a cycle of replies is top-level.
func expected(lines []reply) map[string]string {
	first := map[string]int{} // line of each comment
	for n, l := range lines {
		if _, again := first[l.key]; !again && !l.bad {
			first[l.key] = n
		}
	}
	parentOf := func(key string) string {
		parent := lines[first[key]].parent
		if _, stored := first[parent]; !stored {
			return ""
		}
		return parent
	}
	parents := map[string]string{}
	for key, n := range first {
		parents[key] = parentOf(key)
		ancestor, earliest := parents[key], n
		for range first { // enough steps to come back to key, if it is in a cycle
			if ancestor == "" || ancestor == key {
				break
			}
			ancestor, earliest = parentOf(ancestor), min(earliest, first[ancestor])
		}
		if ancestor == key && earliest == n {
			parents[key] = ""
		}
	}
	return parents
}

// counts are the counts of an import.
type counts struct{ Created, Replayed, Failed, Waiting, ParentMissing int }

// expectedCounts returns the counts of an import whose comments have these parents.
func expectedCounts(lines []reply, parents map[string]string) counts {
	c := counts{Created: len(parents)}
	seen := map[string]bool{}
	for _, l := range lines {
		switch {
		case l.bad:
			c.Failed++
		case seen[l.key]:
			c.Replayed++
		case l.parent != "" && parents[l.key] == "":
			c.ParentMissing++
		}
		seen[l.key] = true
	}
	return c
}

// TestRepliesOfInterruptedImports: imports that share a limit, whose workers are killed, shut down and without permits
// at any moment, end with each comment under its parent.
func TestRepliesOfInterruptedImports(t *testing.T) {
	t.Parallel()
	f := setup(t)
	rapid.Check(t, func(rt *rapid.T) {
		testdb.Exec(t, f.pool, `UPDATE imports SET state = 'cancelled', ended_at = now() WHERE ended_at IS NULL`) // of a failed check
		integration := f.integration(t)
		parents, wants := map[string]string{}, map[uuid.UUID]counts{}
		for n := range rapid.IntRange(1, 2).Draw(rt, "imports") {
			lines := drawReplies(rt, fmt.Sprint("import", n))
			of := expected(lines)
			maps.Copy(parents, of)
			wants[f.spool(t, integration, chunksOf(rt, lines)...)] = expectedCounts(lines, of)
		}
		for n := 0; n < 200 && f.working(t); n++ {
			f.calm()
			switch rapid.SampledFrom([]string{"time", "shutdown", "", "kill", "permits"}).Draw(rt, "event") {
			case "time":
				f.pass(t)
			case "permits":
				f.permits = rapid.IntRange(0, 2).Draw(rt, "permits")
			case "kill":
				f.commands = rapid.IntRange(0, 2).Draw(rt, "commands")
			case "shutdown":
				f.take = func() error { return errShutdown }
			}
			f.visit(t)
		}
		f.finish(t)
		if diff := cmp.Diff(parents, f.parents(t, integration)); diff != "" {
			rt.Errorf("parents (-want +got)\n%s", diff)
		}
		for id, want := range wants {
			i, err := f.worker.Store.Find(t.Context(), integration, id)
			got := counts{int(i.Created), int(i.Replayed), int(i.Failed), int(i.Waiting), int(i.ParentMissing)}
			if err != nil || got != want || i.State != imports.Completed {
				rt.Errorf("import %+v, %v, want %+v", i, err, want)
			}
		}
	})
}

// chunksOf draws a division of lines into chunks.
func chunksOf(rt *rapid.T, lines []reply) (chunks []string) {
	var text strings.Builder
	for n, l := range lines {
		content := "c"
		if l.bad {
			content = ""
		}
		text.WriteString(comment(l.key, l.parent, content))
		if n == len(lines)-1 || rapid.Bool().Draw(rt, "cut") {
			chunks = append(chunks, text.String())
			text.Reset()
		}
	}
	return chunks
}
