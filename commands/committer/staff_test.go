package committer_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// TestDecisionWhileABatchWaits: a batch is decided on what is stored when it gets the lock of the log, not on what was
// stored when it began to wait.
func TestDecisionWhileABatchWaits(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	r, p := newReplica(t, url), newPartner()
	r.must(t, p.novel("n", "Title", novel.Fields{}))
	release := hold(t, url)
	rejected := make(chan error, 1)
	go func() { rejected <- reject("Title")(newStaff(testdb.Pool(t, url))) }()
	awaitWaiters(t, r.db, 1)
	comment := r.start(p.post("c", "Title"))
	awaitWaiters(t, r.db, 2)
	upsert := r.start(p.novel("u", "Title", novel.Fields{}))
	r.awaitQueue(t, 1)
	release()
	testdb.NoError(t, <-rejected)
	(<-comment).want(t, post.ErrNovelNotFound)
	(<-upsert).want(t, novel.ErrRejected)
	checkTruth(t, r.db)
}

// TestTablesAreExchangedUnderCommands: a rebuild exchanges the tables of the inline projections. No comment is refused.
func TestTablesAreExchangedUnderCommands(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	titles := []string{"One", "Two", "Three", "Four"}
	for _, spelling := range titles {
		r.must(t, p.novel("create "+spelling, spelling, novel.Fields{}))
	}
	var writers sync.WaitGroup
	stop := make(chan struct{})
	for w := range 8 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				cmd := p.reply(fmt.Sprint(w, "-", i), titles[(w+i)%len(titles)], fmt.Sprint(w, "-", i-i%20))
				if a := r.submit(context.Background(), cmd); a.err != nil {
					t.Error(a)
				}
			}
		})
	}
	for range 4 {
		for _, projection := range projections.Inline() {
			if _, err := rebuild.Run(t.Context(), rebuild.Config{
				Pool: r.db, Projection: projection, Logger: slog.New(slog.DiscardHandler),
			}); err != nil {
				t.Error(err)
			}
		}
	}
	close(stop)
	writers.Wait()
	t.Logf("%d events, %d bisections", len(checkTruth(t, r.db)), r.bisections(t))
}
