package ratelimit_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"novelgate/commands/ratelimit"
)

// table is a simulation of the rows of a window in the database, with a clock.
type table struct {
	clock   float64 // seconds since 1970
	permits map[int64]int
	given   []give // all grants: the naive model
}

// give is a number of permits, and when their transaction committed.
type give struct {
	at float64
	n  int
}

// read returns what read.sql returns.
func (w *table) read() (permits []ratelimit.Permits) {
	now := int64(w.clock)
	for second, n := range w.permits {
		if second >= now-60 && second <= now+60 {
			permits = append(permits, ratelimit.Permits{Second: second, Permits: n})
		}
	}
	slices.SortFunc(permits, func(a, b ratelimit.Permits) int { return int(a.Second - b.Second) })
	return permits
}

var window = ratelimit.Key{Integration: uuid.New(), Operation: ratelimit.Posts}

func (w *table) grants(limit int) *ratelimit.Grants {
	return ratelimit.New(time.Now).Simulated(window, limit, w.clock, w.read())
}

// take takes permits in a transaction that stores them after a delay.
func (w *table) take(limit, n int, delay float64) (*ratelimit.Grants, ratelimit.Decision) {
	grants := w.grants(limit)
	d := grants.Take(window, n)
	w.clock += delay
	if d.Granted > 0 {
		w.permits[int64(w.clock)] += d.Granted
		w.given = append(w.given, give{w.clock, d.Granted})
	}
	return grants, d
}

// since counts the permits granted after a time.
func (w *table) since(at float64) (n int) {
	for _, g := range w.given {
		if g.at > at {
			n += g.n
		}
	}
	return n
}

// free returns the number of free permits after a wait.
func (w *table) free(limit int, wait time.Duration) int {
	later := table{clock: w.clock + wait.Seconds(), permits: w.permits}
	return later.grants(limit).Take(window, math.MaxInt32).Granted
}

// drawPause draws a pause between two transactions: none, an instant, about a second, about a minute.
func drawPause(t *rapid.T) float64 {
	span := rapid.SampledFrom([]int{0, 1, 300, 3_000, 20_000, 59_000, 61_000, 90_000}).Draw(t, "span")
	return float64(rapid.IntRange(0, span).Draw(t, "pause")) / 1000
}

// instant is more than the error of a clock in a float64.
const instant = 2 * time.Microsecond

// TestNoMinuteSeesMoreThanTheLimit: no transaction makes more than the limit in the last 60 seconds, and a permit
// counts for 61 seconds at most. RetryAfter and Reset are exact.
func TestNoMinuteSeesMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &table{clock: 1_800_000_000.25, permits: map[int64]int{}}
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		for range rapid.IntRange(1, 60).Draw(t, "transactions") {
			w.clock += drawPause(t)
			if rapid.IntRange(0, 9).Draw(t, "change") == 0 {
				limit = rapid.IntRange(0, 20).Draw(t, "limit")
			}
			wanted := rapid.IntRange(1, 8).Draw(t, "wanted")
			before := *w
			delay := 0.0
			if rapid.IntRange(0, 3).Draw(t, "slow") == 0 {
				delay = float64(rapid.IntRange(0, 5_000).Draw(t, "delay")) / 1000
			}
			grants, d := w.take(limit, wanted, delay)
			if used := w.since(w.clock - 60); d.Granted > 0 && used > limit {
				t.Fatalf("%d permits in 60 seconds, limit %d", used, limit)
			}
			if d.Granted == wanted {
				if d.RetryAfter != 0 {
					t.Fatalf("all granted, and retry after %s", d.RetryAfter)
				}
				continue
			}
			if used := before.since(before.clock-61) + d.Granted; used < limit {
				t.Fatalf("%d of %d granted, with %d of %d permits in the last 61 seconds", d.Granted, wanted, used, limit)
			}
			if limit == 0 {
				if d.RetryAfter != time.Minute {
					t.Fatalf("retry after %s without a limit", d.RetryAfter)
				}
				continue
			}
			if delay > 0 {
				continue // the permits were stored in another second than the window expected
			}
			if d.RetryAfter > 61*time.Second || w.free(limit, d.RetryAfter+instant) < 1 ||
				w.free(limit, d.RetryAfter-instant) > 0 {
				t.Fatalf("retry after %s: free before %d, then %d", d.RetryAfter, w.free(limit, d.RetryAfter-instant),
					w.free(limit, d.RetryAfter+instant))
			}
			reset := grants.Reset(window)
			if w.free(limit, reset+instant) != limit || w.free(limit, reset-instant) == limit {
				t.Fatalf("reset after %s: free before %d, then %d of %d", reset, w.free(limit, reset-instant),
					w.free(limit, reset+instant), limit)
			}
		}
	})
}

// TestClockThatIsSetBack: permits of the next minute count, and RetryAfter and Reset are not early.
func TestClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &table{clock: 1_800_000_000.25, permits: map[int64]int{}}
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		setBack := rapid.IntRange(0, 10).Draw(t, "set back at")
		for i := range rapid.IntRange(1, 30).Draw(t, "transactions") {
			w.clock += drawPause(t)
			if i == setBack {
				w.clock -= rapid.Float64Range(0, 59).Draw(t, "by")
			}
			grants, d := w.take(limit, rapid.IntRange(1, 8).Draw(t, "wanted"), 0)
			if d.RetryAfter > 0 && w.free(limit, d.RetryAfter+instant) < 1 {
				t.Fatalf("early: retry after %s", d.RetryAfter)
			}
			if reset := grants.Reset(window); w.free(limit, reset+instant) != limit {
				t.Fatalf("early: reset after %s", reset)
			}
			if d.RetryAfter > 121*time.Second {
				t.Fatalf("retry after %s", d.RetryAfter)
			}
		}
	})
}

// TestGrantsOfOneTransaction: its commands share what is free.
func TestGrantsOfOneTransaction(t *testing.T) {
	t.Parallel()
	grants := ratelimit.New(time.Now).Simulated(window, 5, 1000.5, []ratelimit.Permits{{950, 1}, {990, 1}})
	var granted []int
	for range 5 {
		d := grants.Take(window, 1)
		granted = append(granted, d.Granted)
		if d.Granted == 0 && d.RetryAfter != 10500*time.Millisecond {
			t.Errorf("retry after %s", d.RetryAfter)
		}
	}
	if want := []int{1, 1, 1, 0, 0}; !slices.Equal(granted, want) {
		t.Errorf("granted %v, want %v", granted, want)
	}
}
