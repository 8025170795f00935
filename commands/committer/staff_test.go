package committer_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/aggregates/author"
	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// TestDecisionsHoldAtOnce: decisions of staff affect the next command.
func TestDecisionsHoldAtOnce(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	for _, spelling := range []string{"Title", "Other", "Third"} {
		r.must(t, p.novel("create "+spelling, spelling, novel.Fields{}))
	}
	moderators := newStaff(r.db)
	take := func(step moderation) {
		t.Helper()
		if err := step(moderators); err != nil {
			t.Fatal(err)
		}
	}
	r.want(t, nil, p.post("1", "Title"))
	take(reject("Title"))
	r.want(t, nil, p.post("2", "Other"))
	r.want(t, post.ErrNovelNotFound, p.post("3", "Title"))
	take(approve("Title"))
	r.want(t, nil, p.post("4", "Title"))
	take(reject("Other"))
	r.want(t, post.ErrNovelNotFound, p.post("5", "Other"))
	block(t, r.db, p, "troll")
	for i := range 2 {
		r.want(t, author.ErrBlocked, p.postBy("troll", fmt.Sprint("troll ", i), "Third"))
		r.want(t, nil, p.post(fmt.Sprint("reader ", i), "Third"))
	}
	checkTruth(t, r.db)
}

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
	if err := <-rejected; err != nil {
		t.Fatal(err)
	}
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
	t.Logf("%d events, %d bisections", len(checkTruth(t, r.db)), r.bisections())
}

// TestUpsertAmongComments: each upsert of a batch is decided on the effects of the earlier ones.
func TestUpsertAmongComments(t *testing.T) {
	t.Parallel()
	r, p := setup(t)
	r.must(t, p.novel("create", "Title", novel.Fields{}))
	for _, key := range []string{"1", "2"} {
		answers := r.together(t, p.post("a"+key, "Title"), p.novel("n"+key, "Title", novel.Fields{Author: new("Murasaki")}),
			p.post("b"+key, "Title"))
		if diff := cmp.Diff([]string{"post", "updated", "post"}, texts(answers)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	var updates []events.Event
	for _, recorded := range checkTruth(t, r.db) {
		if _, ok := recorded.Event.(events.NovelUpdated); ok {
			updates = append(updates, recorded.Event)
		}
	}
	if diff := cmp.Diff([]events.Event{events.NovelUpdated{Author: new("Murasaki")}, events.NovelUpdated{}},
		updates); diff != "" {
		t.Errorf("updates (-want +got):\n%s", diff)
	}
}
