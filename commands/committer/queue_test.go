package committer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/internal/testdb"
)

func TestQueueFull(t *testing.T) {
	t.Parallel()
	r := newReplica(t, testdb.New(t), oneLane, func(c *committer.Config) { c.QueueLength = 2 })
	p := newPartner()
	release := r.occupy(t)
	first, second := r.start(p.post("a", "Title")), r.start(p.post("b", "Title"))
	testdb.Eventually(t, "the queue is full", func() bool { return r.QueueDepth() == 2 })
	if a := r.submit(t.Context(), p.post("c", "Title")); !errors.Is(a.err, committer.ErrQueueFull) {
		t.Errorf("third command: %v", a)
	}
	release()
	if a, b := <-first, <-second; a.err != nil || b.err != nil {
		t.Errorf("accepted commands: %v, %v", a, b)
	}
}

// TestCloseWaitsForAnswers: whoever closes goes on to close what commands need.
func TestCloseWaitsForAnswers(t *testing.T) {
	t.Parallel()
	r := newReplica(t, testdb.New(t), oneLane)
	release := r.occupy(t)
	var closed atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Close()
		closed.Store(true)
	}()
	testdb.Eventually(t, "nothing is accepted any more", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond) // what was accepted waits for the lane
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

// TestFloodLeavesTheQueueToOthers floods the lane on behalf of one integration, also with commands whose senders have
// gone away.
func TestFloodLeavesTheQueueToOthers(t *testing.T) {
	t.Parallel()
	r := newReplica(t, testdb.New(t), oneLane,
		func(c *committer.Config) { c.QueueLength, c.Share, c.ShareQueue = 4, 3, 1 })
	flooder, other := newPartner(), newPartner()
	release := r.occupy(t)
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan answer, 3)
	for i := range 3 {
		go func() { gone <- r.submit(ctx, flooder.post(fmt.Sprint("gone ", i), "Title")) }()
	}
	testdb.Eventually(t, "the flooder has its share", func() bool { return r.QueueDepth() == 3 })
	leave()
	for range 3 {
		if a := <-gone; !errors.Is(a.err, committer.ErrOutcomeUnknown) {
			t.Errorf("a command whose sender has gone: %v", a)
		}
	}
	first, second := r.start(flooder.post("first", "Title")), r.start(flooder.post("second", "Title"))
	waiting := second // of the two, one waits and the other is refused
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
	testdb.Eventually(t, "another integration is in the queue", func() bool { return r.QueueDepth() == 4 })
	release()
	if a := <-others; a.err != nil {
		t.Errorf("another integration: %v", a)
	}
	if a := <-waiting; a.err != nil {
		t.Errorf("the command that waited: %v", a)
	}
	if a := r.submit(t.Context(), flooder.post("gone 0", "Title")); a.String() != "post replayed" {
		t.Errorf("retry of a command whose sender had gone: %v", a)
	}
}

// TestCloseAnswersWhatWasAccepted closes a committer under load.
func TestCloseAnswersWhatWasAccepted(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	r := newReplica(t, url)
	p := newPartner()
	var wg sync.WaitGroup
	answers := make([]answer, 200)
	for i := range answers {
		wg.Go(func() {
			answers[i] = r.submit(context.Background(), p.post(fmt.Sprint("key-", i), fmt.Sprint("Title ", i%5)))
		})
	}
	testdb.Eventually(t, "a first commit", func() bool { return r.commits.Load() > 0 })
	r.Close()
	wg.Wait()
	stored := 0
	for i, a := range answers {
		switch {
		case a.err == nil:
			stored++
		case !errors.Is(a.err, committer.ErrClosed):
			t.Errorf("command %d: %v", i, a)
		}
	}
	posts := 0
	for _, recorded := range checkTruth(t, direct(t, url)) {
		if recorded.StreamType == "post" {
			posts++
		}
	}
	if posts != stored {
		t.Errorf("%d posts are stored, %d were acknowledged", posts, stored)
	}
	if a := r.submit(t.Context(), p.post("late", "Title")); !errors.Is(a.err, committer.ErrClosed) {
		t.Errorf("after Close: %v", a)
	}
	r.Close() // again: nothing happens
}
