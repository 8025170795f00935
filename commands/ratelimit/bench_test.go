package ratelimit_test

import (
	"testing"

	"github.com/google/uuid"

	"novelgate/commands/ratelimit"
)

// BenchmarkTake measures takes of one busy window with a limit that is never reached, and how many calls 100,000 of
// them need.
func BenchmarkTake(b *testing.B) {
	s := setup(b, 1)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			d, err := s.replicas[0].Take(b.Context(), s.integration, ratelimit.Posts, 100_000_000, 1)
			if err != nil || d.Granted != 1 {
				b.Errorf("take: %+v, error %v", d, err)
			}
		}
	})
	b.ReportMetric(float64(s.calls.n.Load())/float64(b.N)*100_000, "calls/100k")
}

// BenchmarkTakeFirst measures the worst case: every take is the first one of its window.
func BenchmarkTakeFirst(b *testing.B) {
	s := setup(b, 1)
	for b.Loop() {
		d, err := s.replicas[0].Take(b.Context(), uuid.New(), ratelimit.Posts, 60, 1)
		if err != nil || d.Granted != 1 {
			b.Errorf("take: %+v, error %v", d, err)
		}
	}
}
