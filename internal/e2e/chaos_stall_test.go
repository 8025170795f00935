package e2e_test

import (
	"sync"
	"testing"
	"time"
)

// stalls are times for which this process, and so most likely everything else, stood still. What is promised of a
// service cannot be wanted of that time.
type stalls struct {
	mu   sync.Mutex
	list []stall
}

type stall struct {
	from time.Time
	took time.Duration
}

// watchStalls notes every stall until the test ends.
func watchStalls(t testing.TB) *stalls {
	t.Helper()
	const (
		pause       = 5 * time.Millisecond
		worthNoting = 50 * time.Millisecond // goroutines wait as long for one another in any case
	)
	s, stop, stopped := &stalls{}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for last := time.Now(); ; {
			select {
			case <-stop:
				return
			case <-time.After(pause):
			}
			now := time.Now()
			if took := now.Sub(last) - pause; took > worthNoting {
				s.mu.Lock()
				s.list = append(s.list, stall{last, took})
				s.mu.Unlock()
			}
			last = now
		}
	}()
	t.Cleanup(func() { close(stop); <-stopped })
	return s
}

// late reports whether an answer came later than promised, without what the machine stood still.
func (s *stalls) late(a answer) bool { return s.exceeds(promised, a.sent, a.took) }

// exceeds reports whether something took longer than a promise, without what the machine stood still.
func (s *stalls) exceeds(promise time.Duration, from time.Time, took time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	allowed, end := promise+busy, from.Add(took)
	for _, stall := range s.list {
		if stall.from.Before(end) && stall.from.Add(stall.took).After(from) {
			allowed += stall.took
		}
	}
	return took > allowed
}
