package committer_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"novelgate/aggregates/novel"
	"novelgate/commands/committer"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// A foreign writer appends without the lock of the log, such as a session in psql.

// writer is a transaction or a pool of a foreign writer.
type writer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// record appends an event of a foreign writer, with the inline projections.
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

// creation is the creation of a novel by an upsert of a partner.
func creation(p partner, key, spelling string) events.Recorded {
	owner := p.IntegrationID
	return events.Recorded{
		StreamType: events.NovelStream, StreamID: events.NovelID(fold(spelling)), StreamVersion: 1, ID: key,
		Source: events.NovelsSource(owner),
		Event: events.NovelCreated{
			Title: spelling, Slug: "slug-of-" + key, Author: "Unknown", OwnerID: &owner, State: "approved",
		},
	}
}

// block records that an author is blocked.
func block(t *testing.T, db writer, p partner, external string) {
	t.Helper()
	ref := events.AuthorRef{IntegrationID: p.IntegrationID, Author: &events.ExternalAuthor{ExternalUUID: external}}
	record(t, db, events.Recorded{
		StreamType: events.AuthorStream, StreamID: testdb.AuthorID(p.IntegrationID, external), StreamVersion: 1,
		ID: uuid.NewString(), Source: "staff/tests", Event: events.AuthorBlocked{AuthorRef: ref, Reason: "spam"},
	})
}

// TestOpenForeignWriter: it has taken the next index of the log. Commands that append are refused soon, whatever
// their title, and succeed when it has ended; others are answered.
func TestOpenForeignWriter(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(pgx.Tx) error{
		"commits":    func(tx pgx.Tx) error { return tx.Commit(context.Background()) },
		"rolls back": func(tx pgx.Tx) error { return tx.Rollback(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, p := setup(t)
			r.prompt = true
			r.want(t, "post", p.post("before", "Title"))
			foreign := testdb.Begin(t, r.db)
			record(t, foreign, creation(newPartner(), "foreign", "Foreign"))
			r.want(t, committer.ErrUnavailable, p.post("alone", "Title"))
			first, second := p.post("first", "Title"), p.novel("second", "Foreign", novel.Fields{})
			answers := r.together(t, first, second, p.post("before", "Title"))
			for i, want := range []any{committer.ErrUnavailable, committer.ErrUnavailable, "post replayed"} {
				answers[i].want(t, want)
			}
			testdb.NoError(t, end(foreign))
			answers = r.together(t, p.post("alone", "Title"), first, second)
			wantAnswers(t, answers, "post", "post", map[string]string{"commits": "foreign", "rolls back": "created"}[name])
			checkTruth(t, r.db)
		})
	}
}

// TestForeignWriterCollides: it commits between the reads of a batch and its append. The batch is cut and decided
// again; a batch of one command is refused.
func TestForeignWriterCollides(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	r.must(t, p.post("before", "Title"))
	testdb.Exec(t, r.db, `CREATE SEQUENCE collisions; CREATE FUNCTION collide() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN IF nextval('collisions') IN (1, 4, 5) THEN RAISE unique_violation; END IF; RETURN NULL; END $$;
		CREATE TRIGGER collide BEFORE INSERT ON events FOR EACH STATEMENT EXECUTE FUNCTION collide()`)
	answers := r.together(t, p.post("a", "Title"), p.novel("n", "New", novel.Fields{}), p.post("b", "Title"))
	wantAnswers(t, answers, "post", "created", "post")
	r.want(t, committer.ErrUnavailable, p.post("c", "Title"))
	r.want(t, "post", p.post("c", "Title"))
	checkTruth(t, r.db)
	r.wantCharged(t, 2)
}
