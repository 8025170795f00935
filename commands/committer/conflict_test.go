package committer_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/aggregates/novel"
	"novelgate/commands/committer"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// begin starts a transaction of another writer.
func begin(t testing.TB, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// writer is a transaction or a pool of another writer.
type writer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// record appends an event of another writer, with the inline projections, without the lock of the log: a session in
// psql, which the committer must survive, too.
func record(t testing.TB, db writer, recorded events.Recorded) {
	t.Helper()
	var batch pgx.Batch
	err := eventlog.Queue(&batch, []events.Recorded{recorded})
	if err == nil {
		err = projections.QueueInline(t.Context(), &batch, []events.Recorded{recorded})
	}
	if err == nil {
		err = db.SendBatch(t.Context(), &batch).Close()
	}
	if err != nil {
		t.Fatalf("record %s: %v", recorded.Event.Type(), err)
	}
}

// create lets another writer create a novel for a partner, without committing.
func create(t testing.TB, tx pgx.Tx, p partner, key, spelling string) {
	t.Helper()
	owner := p.IntegrationID
	record(t, tx, events.Recorded{
		StreamType: events.NovelStream, StreamID: events.NovelID(fold(spelling)), StreamVersion: 1, ID: key,
		Source: events.NovelsSource(owner),
		Event: events.NovelCreated{
			Title: spelling, Slug: "slug-of-" + key, Author: "Unknown", OwnerID: &owner, State: "approved",
		},
	})
}

// start submits a command in the background.
func (r *replica) start(command *committer.Command) <-chan answer {
	answers := make(chan answer, 1)
	go func() { answers <- r.submit(context.Background(), command) }()
	return answers
}

// queue is start for commands whose order matters: it returns once the command is in its lane.
func (r *replica) queue(t testing.TB, command *committer.Command) <-chan answer {
	t.Helper()
	submitted := testdb.Must(r.Submit(t.Context(), command))(t)
	answers := make(chan answer, 1)
	go func() {
		result, err := submitted.Wait(context.Background())
		answers <- answer{result, err, command.Key}
	}()
	return answers
}

// conflict makes the next n transactions that create novels fail, as if another writer were faster.
func conflict(t testing.TB, pool *pgxpool.Pool, n int) {
	t.Helper()
	testdb.Exec(t, pool, fmt.Sprintf(`CREATE SEQUENCE conflicts; CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN IF nextval('conflicts') <= %d THEN RAISE unique_violation; END IF; RETURN NULL; END $$;
		CREATE TRIGGER conflict BEFORE INSERT ON title_lookup EXECUTE FUNCTION conflict()`, n))
}

// TestConflictsChargeOnce makes a creation conflict twice. At the second conflict it holds the advisory lock of its
// title.
func TestConflictsChargeOnce(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	conflict(t, r.db, 2)
	r.want(t, "created", p.novel("k", "Title", novel.Fields{}))
	if n := r.conflicts(); n != 2 {
		t.Errorf("%d conflicts", n)
	}
	checkTruth(t, r.db)
	r.wantCharged(t, 1)
}

// TestConflictBecomesReplay: another replica executes the same delivery first. The slower one becomes a retry, and its
// permit is returned.
func TestConflictBecomesReplay(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	other := begin(t, r.db)
	create(t, other, p, "k", "Title")
	answers := r.start(p.novel("k", "Title", novel.Fields{}))
	testdb.Eventually(t, "a conflict", func() bool { return r.conflicts() >= 1 })
	if err := other.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	(<-answers).want(t, "updated replayed")
	checkTruth(t, r.db)
	r.wantCharged(t, 0)
}

// TestReadsSeeDifferentMoments commits a delivery between the statements that read its key and its title.
func TestReadsSeeDifferentMoments(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"events", "title_lookup"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			url := testdb.New(t)
			patient := newPool(t, url, 1, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["lock_timeout"] = "30s" })
			r, p := newReplica(t, url, func(c *committer.Config) { c.Pool = patient }), newPartner()
			// Prepare the statements now: preparing waits for a locked table, too.
			r.must(t, p.post("warm", "Known"))
			other := begin(t, r.db)
			testdb.Exec(t, other, "LOCK TABLE "+table+" IN ACCESS EXCLUSIVE MODE")
			answers := r.start(p.novel("k", "Title", novel.Fields{}))
			testdb.Eventually(t, "the committer waits between its statements", func() bool {
				return testdb.Value[bool](t, r.db, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
					AND wait_event_type = 'Lock')`)
			})
			create(t, other, p, "k", "Title")
			if err := other.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			(<-answers).want(t, "updated replayed")
			checkTruth(t, r.db)
		})
	}
}

// TestRejectedMeanwhile rejects a title between reading it and writing.
func TestRejectedMeanwhile(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	r.must(t, p.novel("n", "Title", novel.Fields{}))
	// Creating another title in the same batch delays it between read and write.
	update := p.novel("u", "Title", novel.Fields{Author: new("Murasaki")})
	release := r.occupy(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	updates := r.start(update)
	r.awaitQueue(t, 1)
	creations := r.start(newPartner().novel("c", "Other", novel.Fields{}))
	r.awaitQueue(t, 2)
	r.permits.once(func() bool {
		close(entered)
		<-leave
		return true
	})
	release()
	<-entered
	testdb.Must(newStaff(r.db).RejectNovel(t.Context(), "Title", "no"))(t)
	close(leave)
	(<-updates).want(t, novel.ErrRejected)
	<-creations
	checkTruth(t, r.db)
	if r.conflicts() != 1 {
		t.Errorf("%d conflicts", r.conflicts())
	}
}
