package ratelimit

import (
	"math"
	"time"

	"github.com/google/uuid"
)

// Permits are the permits of a second.
type Permits struct {
	Second  int64
	Permits int
}

// Simulated returns Grants that have read one window at a time of the database's clock, in seconds since 1970. The
// permits are those of the table, oldest first.
func (l *Limiter) Simulated(k Key, limit int, now float64, permits []Permits) *Grants {
	g := l.NewGrants()
	g.Want(k, limit)
	w := g.windows[k]
	w.now = now
	for _, p := range permits {
		w.seconds, w.used = append(w.seconds, second{p.Second, p.Permits}), w.used+p.Permits
	}
	return g
}

// Reset returns the time until no permit of a window counts.
func (g *Grants) Reset(k Key) time.Duration { return g.windows[k].until(math.MaxInt) }

// Requests returns how many requests of an integration run or wait.
func (s *Shares) Requests(integration uuid.UUID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.shares[integration]; own != nil {
		return own.requests
	}
	return 0
}

// Remembered returns the number of integrations with requests.
func (s *Shares) Remembered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.shares)
}
