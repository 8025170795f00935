package committer_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/internal/testdb"
)

// line makes a command a line of a bulk request.
func line(command *committer.Command) *committer.Command {
	command.Bulk = true
	return command
}

// TestLinesYieldToLiveCommands: the next batch has all live commands that wait, and few of the lines that came before.
func TestLinesYieldToLiveCommands(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	r.must(t, p.novel("n", "Title", novel.Fields{}))
	const lines, live, most = 100, 5, 4
	var commands batch
	for n := range lines {
		commands = append(commands, line(p.post(fmt.Sprint("line ", n), "Title")))
	}
	for n := range live {
		commands = append(commands, p.post(fmt.Sprint("live ", n), "Title"))
	}
	for _, a := range r.together(t, commands...) {
		a.want(t, "post")
	}
	beside := testdb.Value[int](t, r.db, `SELECT count(*) FROM events WHERE event_source = 'posts' AND event_id LIKE 'line %'
		AND batch_id IN (SELECT batch_id FROM events WHERE event_id LIKE 'live %')`)
	before := testdb.Value[int](t, r.db, `SELECT count(*) FROM events WHERE event_id LIKE 'line %' AND log_index <
		(SELECT min(log_index) FROM events WHERE event_id LIKE 'live %')`)
	if beside != most || before != 0 {
		t.Errorf("%d lines are beside the live commands and %d before them", beside, before)
	}
	if batches := testdb.Value[int](t, r.db, `SELECT count(DISTINCT batch_id) FROM events WHERE event_id LIKE 'line %'`); batches > 7 {
		t.Errorf("without live commands the lines took %d batches", batches)
	}
	checkTruth(t, r.db)
}

// TestLinesHaveTheirOwnLimit: lines count, replays too, and nothing else that they do; live commands go on.
func TestLinesHaveTheirOwnLimit(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	p.LinesPerMinute, p.PostsPerMinute, p.NovelsPerMinute = 4, 1, 1
	for n, command := range []*committer.Command{
		p.novel("n", "Title", novel.Fields{}), p.novel("n", "Title", novel.Fields{}),
		p.post("1", "Other"), p.post("1", "Other"),
	} {
		if a := r.submit(t.Context(), line(command)); a.err != nil {
			t.Errorf("line %d: %v", n, a.err)
		}
	}
	wantLimited(t, r.submit(t.Context(), line(p.post("2", "Title"))), ratelimit.Lines, 4)
	wantLimited(t, r.submit(t.Context(), line(p.novel("2", "Title", novel.Fields{}))), ratelimit.Lines, 4)
	r.submit(t.Context(), p.post("2", "Title")).want(t, "post")
	wantLimited(t, r.submit(t.Context(), p.post("3", "Title")), ratelimit.Posts, 1)
	if n := r.charged(t, ratelimit.Lines); n != 4 {
		t.Errorf("%d lines are charged", n)
	}
	r.wantCharged(t, 0)
}

// TestLinesWaitForRoom: lines of many requests wait instead of being refused, and end with their request.
func TestLinesWaitForRoom(t *testing.T) {
	t.Parallel()
	r, p := setup(t, func(c *committer.Config) { c.QueueLength = 2 })
	release := r.occupy(t)
	ctx, cancel := context.WithCancel(t.Context())
	var waiting []<-chan answer
	for n := range 2 {
		waiting = append(waiting, r.queue(t, line(p.post(fmt.Sprint(n), "Title"))))
	}
	late, ended := make(chan answer, 1), make(chan answer, 1)
	go func() { late <- r.submit(t.Context(), line(p.post("late", "Title"))) }()
	go func() { ended <- r.submit(ctx, line(p.post("ended", "Title"))) }()
	cancel()
	if a := <-ended; a.err == nil {
		t.Error("a line is taken for a request that has ended")
	}
	release()
	for _, w := range waiting {
		(<-w).want(t, "post")
	}
	(<-late).want(t, "post")
	checkTruth(t, r.db)
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
		if got := testdb.Metric(t, r.metrics, "novelgate_log_events_total "+id.String()); got != events {
			t.Errorf("%v events are counted, want %v", got, events)
		}
		if got := testdb.Metric(t, r.metrics, "novelgate_log_bytes_total "+id.String()); got != bytes {
			t.Errorf("%v bytes are counted, want %v", got, bytes)
		}
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
