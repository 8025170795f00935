package e2e_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// The service promises an answer within two seconds. A busy machine adds waits to the measured time. A request that
// hangs takes far longer.
const (
	promised = 2 * time.Second
	busy     = 1500 * time.Millisecond
)

// witness records every answer.
type witness struct {
	*stalls
	mu      sync.Mutex
	answers []answer
}

func (w *witness) see(a answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers = append(w.answers, a)
}

// between returns the answers to requests within a period.
func (w *witness) between(from, to time.Time) []answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.answers), func(a answer) bool {
		return a.sent.Before(from) || a.sent.Add(a.took).After(to)
	})
}

// stalls are periods in which this process, and so probably the whole machine, stood still. Promises about time do not
// include them.
type stalls struct {
	mu   sync.Mutex
	list []stall
}

type stall struct {
	from time.Time
	took time.Duration
}

// watchStalls records stalls until the test ends.
func watchStalls(t testing.TB) *stalls {
	t.Helper()
	const (
		pause       = 5 * time.Millisecond
		worthNoting = 50 * time.Millisecond // shorter waits are normal
	)
	s := &stalls{}
	testdb.Background(t, func(ctx context.Context) {
		for last := time.Now(); ctx.Err() == nil; {
			time.Sleep(pause)
			now := time.Now()
			if took := now.Sub(last) - pause; took > worthNoting {
				s.mu.Lock()
				s.list = append(s.list, stall{last, took})
				s.mu.Unlock()
			}
			last = now
		}
	})
	return s
}

// late reports whether something took longer than promised, without stalls.
func (s *stalls) late(from time.Time, took time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	allowed, end := promised+busy, from.Add(took)
	for _, stall := range s.list {
		if stall.from.Before(end) && stall.from.Add(stall.took).After(from) {
			allowed += stall.took
		}
	}
	return took > allowed
}
