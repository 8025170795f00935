package ratelimit_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/commands/ratelimit"
	"novelgate/internal/testdb"
)

func TestShareOfOneLeavesThatOfOthers(t *testing.T) {
	t.Parallel()
	shares := ratelimit.NewShares(2, 1)
	flooder, other := uuid.New(), uuid.New()
	for range 2 {
		testdb.NoError(t, shares.Take(t.Context(), flooder))
	}
	ctx, leave := context.WithCancel(t.Context())
	waiter := make(chan error, 1)
	go func() { waiter <- shares.Take(ctx, flooder) }()
	testdb.Eventually(t, "the third waits", func() bool { return shares.Requests(flooder) == 3 })
	at, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := shares.Take(at, flooder); !errors.Is(err, ratelimit.ErrShareExceeded) || at.Err() != nil {
		t.Errorf("the fourth: %v, want ErrShareExceeded at once", err)
	}
	if err := shares.Take(t.Context(), other); err != nil {
		t.Errorf("another integration: %v", err)
	}

	leave()
	if err := <-waiter; !errors.Is(err, ratelimit.ErrShareExceeded) || !errors.Is(err, context.Canceled) {
		t.Errorf("the one that left: %v, want ErrExceeded and Canceled", err)
	}
	go func() { waiter <- shares.Take(t.Context(), flooder) }()
	testdb.Eventually(t, "another waits in its place", func() bool { return shares.Requests(flooder) == 3 })
	shares.Return(flooder)
	if err := <-waiter; err != nil {
		t.Errorf("the one whose turn came: %v", err)
	}

	shares.Return(flooder)
	shares.Return(flooder)
	shares.Return(other)
	if got := shares.Remembered(); got != 0 {
		t.Errorf("%d integrations without requests are remembered", got)
	}
}

// TestNoMoreThanTheShare: many requests compete, and some give up.
func TestNoMoreThanTheShare(t *testing.T) {
	t.Parallel()
	shares := ratelimit.NewShares(3, 1000)
	id := uuid.New()
	var underWay, most, served atomic.Int64
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%5 == 0 {
				go cancel()
			}
			if shares.Take(ctx, id) != nil {
				return
			}
			defer shares.Return(id)
			defer underWay.Add(-1)
			now := underWay.Add(1)
			for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
			}
			served.Add(1)
		})
	}
	wg.Wait()
	if most.Load() > 3 || served.Load() < 400 {
		t.Errorf("%d at a time, want 3 at most; %d served, want 400 at least", most.Load(), served.Load())
	}
	if got := shares.Remembered(); got != 0 {
		t.Errorf("%d integrations without requests are remembered", got)
	}
}
