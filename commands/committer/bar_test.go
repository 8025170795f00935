package committer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/events"
	"novelgate/internal/testdb"
)

// TestBarRacesWithImports: staff decline titles while partners of two replicas import them. Whoever is first in a
// stream, the others are decided again on what stands there: every title ends rejected, and either it was never
// imported, or one partner has created it and staff have rejected the novel.
func TestBarRacesWithImports(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	pool := direct(t, url)
	replicas := []*replica{newReplica(t, url), newReplica(t, url)}
	moderators := newStaff(pool)
	partners := []partner{newPartner(), newPartner()}
	titles := max(4, scaled(60))
	created := make([]atomic.Int64, titles)
	for i := range titles {
		spelling := fmt.Sprint("Title ", i)
		var wg sync.WaitGroup
		// One side or the other has a start, of nothing up to what it takes to write; with the first two titles it
		// has done.
		start := time.Duration(i/2) * 4 * time.Millisecond / time.Duration(titles)
		if i == 0 {
			if _, err := replicas[0].ImportPost(t.Context(), partners[0].post("first", spelling)); err != nil {
				t.Fatal(err)
			}
		}
		rejected := make(chan struct{})
		wg.Go(func() {
			defer close(rejected)
			if i%2 == 0 {
				time.Sleep(start)
			}
			if err := reject(spelling)(moderators); err != nil {
				t.Errorf("%s: reject: %v", spelling, err)
			}
		})
		switch {
		case i == 1:
			<-rejected
		case i%2 == 1:
			time.Sleep(start)
		}
		for n := range 8 {
			replica, p := replicas[n%2], partners[n/2%2]
			wg.Go(func() {
				if n < 4 {
					got, err := replica.UpsertNovel(context.Background(), p.novel(fmt.Sprint(i, "-", n), spelling, novel.Fields{}))
					if err != nil && !errors.Is(err, novel.ErrRejected) {
						t.Errorf("%s: upsert: %v", spelling, err)
					}
					if err == nil && got.Outcome == novel.Created {
						created[i].Add(1)
					}
					return
				}
				if _, err := replica.ImportPost(context.Background(), p.post(fmt.Sprint(i, "-", n), spelling)); err != nil &&
					!errors.Is(err, post.ErrNovelNotFound) {
					t.Errorf("%s: comment: %v", spelling, err)
				}
			})
		}
		wg.Wait()
	}

	histories := map[string][]events.Event{}
	for _, recorded := range checkTruth(t, pool) {
		if recorded.StreamType == events.NovelStream {
			histories[recorded.StreamID.String()] = append(histories[recorded.StreamID.String()], recorded.Event)
		}
	}
	barred := 0
	for i := range titles {
		id := events.NovelID(fold(fmt.Sprint("Title ", i)))
		history := histories[id.String()]
		n := novel.Novel{ID: id}
		for _, event := range history {
			n = n.Apply(event)
		}
		if n.State != novel.Rejected || created[i].Load() > 1 {
			t.Errorf("title %d is %s after %d creations: %+v", i, n.State, created[i].Load(), history)
		}
		if n.Barred() {
			barred++
			if len(history) != 1 || created[i].Load() != 0 {
				t.Errorf("title %d was barred, and yet: %+v, %d creations", i, history, created[i].Load())
			}
		}
	}
	t.Logf("%d of %d titles were never imported", barred, titles)
	if barred == 0 || barred == titles {
		t.Errorf("%d of %d titles were barred: one of the orders was not tried", barred, titles)
	}
}

// TestFreedTitleIsCreatedOnce: many import a title that was barred and is free again. The stream goes on where it
// was, and the novel has the slug that was kept and the spelling of its creator.
func TestFreedTitleIsCreatedOnce(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	pool := direct(t, url)
	replicas := []*replica{newReplica(t, url), newReplica(t, url)}
	moderators := newStaff(pool)
	if _, err := moderators.PublishNovel(t.Context(), "Red, Moon", ""); err != nil { // takes the slug that comes first
		t.Fatal(err)
	}
	if err := reject("Red Moon")(moderators); err != nil {
		t.Fatal(err)
	}
	before, err := moderators.ApproveNovel(t.Context(), "red moon", "a mistake")
	if err != nil {
		t.Fatal(err)
	}
	var created atomic.Int64
	var wg sync.WaitGroup
	for n := range 24 {
		wg.Go(func() {
			p := newPartner()
			got, err := replicas[n%2].UpsertNovel(context.Background(), p.novel("k", "RED  moon", novel.Fields{}))
			if err != nil || got.NovelID != before.NovelID || got.Slug != before.Slug {
				t.Errorf("%+v, %v; want novel %s at %s", got, err, before.NovelID, before.Slug)
			}
			if got.Outcome == novel.Created {
				created.Add(1)
			} else if got.Outcome != novel.Foreign {
				t.Errorf("outcome %d", got.Outcome)
			}
		})
	}
	wg.Wait()
	after, err := moderators.Novel(t.Context(), "red moon")
	if err != nil || created.Load() != 1 || after.Title != "RED moon" || after.State != novel.Approved ||
		after.Slug == "red-moon" {
		t.Errorf("%d creations: %+v, %v", created.Load(), after, err)
	}
	checkTruth(t, pool)
}
