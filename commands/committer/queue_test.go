package committer_test

import (
	"context"
	"fmt"
	"testing"

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
	const lines, live, most = 100, 5, 16
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
	if batches := testdb.Value[int](t, r.db, `SELECT count(DISTINCT batch_id) FROM events WHERE event_id LIKE 'line %'`); batches > 4 {
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
