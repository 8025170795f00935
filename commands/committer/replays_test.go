package committer_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/novel"
	"novelgate/commands/committer"
	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// TestRetriesInABatch: a retry in the batch of its original, and that of an older one.
func TestRetriesInABatch(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	r.want(t, "post", p.post("a", "Title"))
	original := r.must(t, p.post("o", "Other"))
	got := r.together(t, p.post("b", "Title"), p.post("a", "Title"), p.post("b", "Title"), p.post("a", "Other"),
		p.reply("c", "Other", "b"), p.reply("d", "Other", "o"), p.reply("d", "Other", "o"))
	want := []string{
		"post", "post replayed", "post replayed", "post replayed mismatch", "post", "post threaded", "post replayed threaded",
	}
	if diff := cmp.Diff(want, texts(got)); diff != "" {
		t.Errorf("one batch (-want +got):\n%s", diff)
	}
	if got[0].PostID != got[2].PostID || got[0].ThreadID != got[2].ThreadID || *got[6].ParentPostID != original.PostID {
		t.Errorf("identifiers of retries: %+v", got)
	}
	r.want(t, "post replayed", p.post("b", "Title"))
	r.want(t, "post replayed threaded", p.reply("d", "Other", "o"))
	checkTruth(t, r.db)
}

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
	if err := reject("Title")(newStaff(r.db)); err != nil {
		t.Fatal(err)
	}
	r.want(t, "post replayed", p.post("a", "Title"))
	r.want(t, declined, p.post("new", "Title"))
	r.wantCharged(t, 1)
}

// TestReplayNamesItsOriginal: a replay has the request id of the original.
func TestReplayNamesItsOriginal(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	p.RequestID = "first"
	commands := batch{p.novel("n", "Title", novel.Fields{}), p.post("c", "Title")}
	for _, command := range commands {
		r.must(t, command)
	}
	p.RequestID = "second"
	upsert := r.submit(t.Context(), p.novel("n", "Title", novel.Fields{}))
	post := r.submit(t.Context(), p.post("c", "Title"))
	want := []committer.Original{{"first", "novel.created.v1"}, {"first", "post.imported.v1"}}
	if diff := cmp.Diff(want, []committer.Original{upsert.Original, post.Original}); diff != "" {
		t.Errorf("originals (-want +got):\n%s", diff)
	}
}

// TestParents: a comment is a parent only in its own discussion, and only of later comments.
func TestParents(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	q := newPartner()
	parent := r.submit(t.Context(), p.post("parent", "Title"))
	r.must(t, p.post("other", "Other"))
	for _, tc := range []struct {
		cmd  *committer.Command
		want string
	}{
		{p.reply("a", "Title", "parent"), "post threaded"},
		{p.reply("b", "Other", "parent"), "post"},
		{q.reply("c", "Title", "parent"), "post"},
		{p.reply("d", "Title", "a"), "post threaded"},
	} {
		a := r.want(t, tc.want, tc.cmd)
		if tc.cmd.Key == "a" && *a.ParentPostID != parent.PostID {
			t.Errorf("parent %s, want %s", a.ParentPostID, parent.PostID)
		}
	}
	got := texts(r.together(t, p.reply("e", "Title", "f"), p.post("f", "Title"), p.reply("g", "Title", "f")))
	if fmt.Sprint(got) != "[post post post threaded]" {
		t.Errorf("%q", got)
	}
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
