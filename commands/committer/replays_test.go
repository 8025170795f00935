package committer_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/novel"
	"novelgate/commands/committer"
	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// TestRetryNeedsNothing that its original needed: no parent, no open title, no creation. It writes nothing.
func TestRetryNeedsNothing(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	r.must(t, p.post("a", "Title"))
	r.must(t, p.reply("orphan", "Title", "later"))
	// A newer replica has imported the parent in an unknown form.
	recordUnknown(t, r, p, "later")
	r.want(t, "post replayed", p.reply("orphan", "Title", "later"))
	testdb.Exec(t, r.db, `ALTER TABLE events ADD CONSTRAINT refused CHECK (event_id <> 'a') NOT VALID`)
	r.want(t, "post replayed", p.post("a", "Title"))
	p.NovelsPerMinute = 0
	r.want(t, "post replayed mismatch", p.post("a", "Unknown title"))
	testdb.NoError(t, reject("Title")(newStaff(r.db)))
	r.want(t, "post replayed", p.post("a", "Title"))
	r.want(t, declined, p.post("new", "Title"))
	r.wantCharged(t, 1)
}

// TestReplayWaitsForTheSynchronousStandby: an event that only the primary has, because the wait of its commit was
// cancelled, is not acknowledged to a retry before the standby has it. The retry of an upsert writes nothing else.
func TestReplayWaitsForTheSynchronousStandby(t *testing.T) {
	t.Parallel()
	url, standby := testdb.NewSynchronousPair(t)
	r, p := newReplica(t, url), newPartner()
	r.must(t, p.post("open", "Title"))
	log := readLog(t, r.db)
	comment := log[len(log)-1]
	comment.ID, comment.StreamID = "lost", events.PostID(p.IntegrationID, "lost")
	for _, tc := range []struct {
		lost  events.Recorded
		retry *committer.Command
		want  string
	}{
		{comment, p.post("lost", "Title"), "post replayed"},
		{creation(p, "lost", "Lost"), p.novel("lost", "Lost", novel.Fields{}), "updated replayed"},
	} {
		standby.Cut(t)
		standby.Unreplicated(t, func(conn *pgx.Conn) error { return projections.Append(t.Context(), conn, tc.lost) })
		retry := r.start(tc.retry)
		testdb.Eventually(t, "the retry waits for the standby", func() bool {
			if len(retry) > 0 {
				t.Fatalf("before the standby has it: %v", <-retry)
			}
			return standby.Waiting(t) == 1
		})
		standby.Return(t)
		(<-retry).want(t, tc.want)
	}
}
