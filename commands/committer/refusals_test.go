package committer_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"novelgate/aggregates/author"
	"novelgate/aggregates/novel"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/events"
	"novelgate/internal/testdb"
)

// block records that an author is blocked.
func block(t *testing.T, db writer, p partner, external string) {
	t.Helper()
	ref := events.AuthorRef{IntegrationID: p.IntegrationID, Author: &events.ExternalAuthor{ExternalUUID: external}}
	record(t, db, events.Recorded{
		StreamType: events.AuthorStream, StreamID: events.AuthorID(p.IntegrationID, external), StreamVersion: 1,
		ID: uuid.NewString(), Source: "staff/tests", Event: events.AuthorBlocked{AuthorRef: ref, Reason: "spam"},
	})
}

func (p partner) postBy(external, key, spelling string) *committer.Command {
	cmd := p.post(key, spelling)
	cmd.Comment.Comment.ExternalUUID = external
	return cmd
}

// TestBlockedAuthorCreatesNothing: neither a post nor a novel, and it uses no creation. A partner who may not create
// novels gets the refusal of the author, not that of the novel.
func TestBlockedAuthorCreatesNothing(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	block(t, r.db, p, "troll")
	for i, spelling := range []string{"Unknown", "Unknown, too"} {
		p.CanCreateNovels = i == 0
		r.want(t, author.ErrBlocked, p.postBy("troll", "key of "+spelling, spelling))
	}
	r.wantCharged(t, 0)
	if n := testdb.Value[int](t, r.db, `SELECT count(*) FROM events WHERE stream_type <> 'author'`); n != 0 {
		t.Errorf("%d events", n)
	}
}

// TestBlockedAuthorsNeighbours: only new comments of the blocked author in a batch are refused; earlier ones are
// replayed.
func TestBlockedAuthorsNeighbours(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	q := newPartner()
	original := r.must(t, p.postBy("troll", "before", "Title"))
	block(t, r.db, p, "troll")
	got := r.together(t,
		p.postBy("troll", "1", "Title"), p.postBy("reader", "2", "Title"), q.postBy("troll", "3", "Title"),
		p.postBy("troll", "before", "Title"), p.postBy("troll", "4", "Title"))
	blocked := "error: " + author.ErrBlocked.Error()
	if diff := cmp.Diff([]string{blocked, "post", "post", "post replayed", blocked}, texts(got)); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if got[3].PostID != original.PostID {
		t.Errorf("the replay is %s, want %s", got[3].PostID, original.PostID)
	}
}

// TestGrowthOfTheLogIsCounted compares the metrics with the log.
func TestGrowthOfTheLogIsCounted(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	other := newPartner()
	for i := range 5 {
		r.submit(t.Context(), p.post(fmt.Sprint(i), "Title"))
		r.submit(t.Context(), p.post("0", "Title")) // a retry appends nothing
	}
	r.submit(t.Context(), other.novel("n", "Another", novel.Fields{}))
	for _, id := range []uuid.UUID{p.IntegrationID, other.IntegrationID} {
		var events, bytes float64
		if err := r.db.QueryRow(t.Context(), `SELECT count(*), sum(octet_length(data::text) + coalesce(octet_length(personal::text), 0) + 450)
			FROM events WHERE integration_id = $1`, id).Scan(&events, &bytes); err != nil || events == 0 {
			t.Fatalf("%v events, %v", events, err)
		}
		if got := r.counter("novelgate_log_events_total", id.String()); got != int(events) {
			t.Errorf("%v events are counted, want %v", got, events)
		}
		if got := r.counter("novelgate_log_bytes_total", id.String()); got != int(bytes) {
			t.Errorf("%v bytes are counted, want %v", got, bytes)
		}
	}
}

// TestReplyAwaitsItsParent: a reply is refused until its parent is on record, and creates nothing before. Other
// commands of the batch are unaffected.
func TestReplyAwaitsItsParent(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	await := func(key, spelling, parent string) *committer.Command {
		cmd := p.reply(key, spelling, parent)
		cmd.Comment.AwaitParent = true
		return cmd
	}
	unknown := "error: " + committer.ErrParentUnknown.Error()
	for round, test := range []struct {
		commands batch
		want     []string
	}{
		{batch{await("a", "New", "later"), p.post("b", "Title")}, []string{unknown, "post"}},
		{
			batch{await("c", "Title", "b"), await("d", "Title", "e"), p.post("e", "Title"), await("f", "Title", "e")},
			[]string{"post threaded", unknown, "post", "post threaded"},
		},
		{batch{await("d", "Title", "e"), await("c", "Title", "x")}, []string{"post threaded", "post replayed threaded"}},
	} {
		if diff := cmp.Diff(test.want, texts(r.together(t, test.commands...))); diff != "" {
			t.Errorf("round %d (-want +got):\n%s", round, diff)
		}
	}
	if a := r.submit(t.Context(), p.post("a", "New")); a.err != nil || a.Replayed {
		t.Errorf("the refused reply has left %v", a)
	}
}

func TestQueueFull(t *testing.T) {
	t.Parallel()
	r, p := setup(t, func(c *committer.Config) { c.QueueLength = 2 })
	release := r.occupy(t)
	first, second := r.start(p.post("a", "Title")), r.start(p.post("b", "Title"))
	r.awaitQueue(t, 2)
	r.want(t, committer.ErrQueueFull, p.post("c", "Title"))
	release()
	if a, b := <-first, <-second; a.err != nil || b.err != nil {
		t.Errorf("accepted commands: %v, %v", a, b)
	}
}

// TestCloseWaitsForAnswers: after Close, its caller closes the resources of commands.
func TestCloseWaitsForAnswers(t *testing.T) {
	t.Parallel()
	r, _ := setup(t)
	release := r.occupy(t)
	var closed atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Close()
		closed.Store(true)
	}()
	testdb.Eventually(t, "nothing is accepted any more", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond) // what was accepted waits for the first batch
		defer cancel()
		return errors.Is(r.submit(ctx, newPartner().post("late", "Late")).err, committer.ErrClosed)
	})
	for range 20 {
		if time.Sleep(5 * time.Millisecond); closed.Load() {
			t.Error("Close has returned before a command was answered")
			break
		}
	}
	release()
	<-ended
}

// TestFloodLeavesTheQueueToOthers floods the queue for one integration, also with commands whose clients have
// disconnected.
func TestFloodLeavesTheQueueToOthers(t *testing.T) {
	t.Parallel()
	r := newReplica(t, testdb.New(t),
		func(c *committer.Config) { c.QueueLength, c.Share, c.ShareQueue = 4, 3, 1 })
	flooder, other := newPartner(), newPartner()
	release := r.occupy(t)
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan answer, 3)
	for i := range 3 {
		go func() { gone <- r.submit(ctx, flooder.post(fmt.Sprint("gone ", i), "Title")) }()
	}
	r.awaitQueue(t, 3)
	leave()
	for range 3 {
		(<-gone).want(t, committer.ErrOutcomeUnknown)
	}
	first, second := r.start(flooder.post("first", "Title")), r.start(flooder.post("second", "Title"))
	waiting := second // one of the two waits, and the other is refused
	select {
	case a := <-first:
		if !errors.Is(a.err, ratelimit.ErrShareExceeded) {
			t.Errorf("beyond what may wait: %v", a)
		}
	case a := <-second:
		waiting = first
		if !errors.Is(a.err, ratelimit.ErrShareExceeded) {
			t.Errorf("beyond what may wait: %v", a)
		}
	}
	others := r.start(other.post("k", "Title"))
	r.awaitQueue(t, 4)
	release()
	(<-others).want(t, nil)
	(<-waiting).want(t, nil)
	r.want(t, "post replayed", flooder.post("gone 0", "Title"))
}
