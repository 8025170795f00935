package ratelimit_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// ledger is the naive model: every permit that was ever granted, and when.
type ledger []give

func (l *ledger) grant(at time.Time, n int) {
	if n > 0 {
		*l = append(*l, give{at: at, n: int64(n)})
	}
}

// within counts the permits granted in the minute that ends at a time, both ends included.
func (l ledger) within(end time.Time) int {
	n := 0
	for _, g := range l {
		if !g.at.After(end) && !g.at.Before(end.Add(-time.Minute)) {
			n += int(g.n)
		}
	}
	return n
}

// peak is the most that any minute saw: it is enough to look at minutes that end with a grant.
func (l ledger) peak() int {
	most := 0
	for _, g := range l {
		most = max(most, l.within(g.at))
	}
	return most
}

func (l ledger) total() int {
	n := 0
	for _, g := range l {
		n += int(g.n)
	}
	return n
}

// drawStep draws how far time goes on: nothing, an instant, around a merge, around a minute.
func drawStep(t *rapid.T) time.Duration {
	spans := []time.Duration{
		0, 10 * microsecond, 300 * time.Millisecond, 3 * time.Second, 20 * time.Second, 61 * time.Second,
	}
	return microsecond * time.Duration(
		rapid.Int64Range(0, int64(rapid.SampledFrom(spans).Draw(t, "span")/microsecond)).Draw(t, "step"))
}

// Without leases and with few charges, the function grants just what the naive model does, whatever the limit becomes
// and whatever comes back.
func TestSmallWindowEqualsTheNaiveModel(t *testing.T) {
	t.Parallel()
	pool := setup(t, 0).pool
	rapid.Check(t, func(t *rapid.T) {
		s := simulate(pool)
		var log ledger
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		for range rapid.IntRange(1, 40).Draw(t, "takes") {
			s.advance(drawStep(t))
			if rapid.IntRange(0, 9).Draw(t, "change") == 0 {
				limit = rapid.IntRange(1, 20).Draw(t, "limit")
			}
			var back []give
			if len(log) > 0 && rapid.IntRange(0, 4).Draw(t, "return") == 0 {
				g := &log[rapid.IntRange(0, len(log)-1).Draw(t, "which")]
				n := rapid.Int64Range(0, g.n).Draw(t, "how many")
				back = []give{{at: g.at, n: n}}
				g.n -= n
			}
			wanted := rapid.IntRange(0, 8).Draw(t, "wanted")
			want := max(0, min(wanted, limit-log.within(s.clock)))
			o := s.take(t, limit, wanted, 100, back...)
			if o.Granted != want {
				t.Fatalf("granted %d, the model %d", o.Granted, want)
			}
			log.grant(o.GrantedAt, o.Granted)
			if used := log.within(s.clock); o.Used != used {
				t.Fatalf("%d permits count, %d for the model", o.Used, used)
			}
			if free := limit > o.Used; free != (o.RetryAfter == 0) {
				t.Fatalf("%d of %d used, retry after %s", o.Used, limit, o.RetryAfter)
			}
		}
	})
}

// With leases that are spent at any moment of their life, and with charges that are merged, no minute ever sees
// more than the limit; and a window that has rested is full again.
func TestNoMinuteSeesMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	pool := setup(t, 0).pool
	rapid.Check(t, func(t *rapid.T) {
		s := simulate(pool)
		var log ledger
		var back []give
		limit := rapid.IntRange(1, 3000).Draw(t, "limit")
		share := rapid.SampledFrom([]int{0, 2, 10, 100}).Draw(t, "share")
		for range rapid.IntRange(0, 130).Draw(t, "warm up") {
			s.advance(time.Duration(rapid.Int64Range(0, 400_000).Draw(t, "step")) * microsecond)
			log.grant(s.clock, s.take(t, limit, 1, 0).Granted)
		}
		for range rapid.IntRange(1, 40).Draw(t, "takes") {
			s.advance(drawStep(t))
			o := s.take(t, limit, rapid.IntRange(0, limit).Draw(t, "wanted"), share, back...)
			back = nil
			log.grant(o.GrantedAt, o.Granted)
			if o.Leased == 0 {
				continue
			}
			life := int64(o.LeasedUntil.Sub(o.GrantedAt) / microsecond)
			used := o.GrantedAt.Add(microsecond * time.Duration(rapid.Int64Range(0, life).Draw(t, "life")))
			spent := rapid.IntRange(0, o.Leased).Draw(t, "spent")
			log.grant(used, spent)
			if rapid.Bool().Draw(t, "give back") {
				back = append(back, give{at: o.LeasedUntil, n: int64(o.Leased - spent)})
			}
		}
		if peak := log.peak(); peak > limit {
			t.Fatalf("%d permits granted within a minute, limit %d", peak, limit)
		}
		s.advance(61 * time.Second)
		if o := s.take(t, limit, limit, share); o.Granted != limit {
			t.Fatalf("granted %d of %d after a rest", o.Granted, limit)
		}
	})
}
