package ratelimit_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"novelgate/commands/ratelimit"
	"novelgate/internal/testdb"
)

// instant is the resolution of the database's clock.
const instant = time.Microsecond

// TestWindowSlides: whatever is taken, in either way and by any replica, no 60 seconds of the table have more permits
// than the limit; what is refused would have been too much; and RetryAfter and Reset are exact.
func TestWindowSlides(t *testing.T) {
	t.Parallel()
	f := setup(t)
	rapid.Check(t, func(r *rapid.T) {
		f.key.Integration = uuid.New()
		limit := rapid.IntRange(1, 12).Draw(r, "limit")
		clock := func() time.Time { return testdb.Value[time.Time](t, f.pool, `SELECT clock_timestamp()`) }
		// used returns how many permits count at a moment of the database's clock.
		used := func(at time.Time) int {
			return testdb.Value[int](t, f.pool, `SELECT coalesce(sum(permits), 0) FROM rate_limits
				WHERE integration_id = $1 AND granted_at > $2::timestamptz - interval '1 minute'`, f.key.Integration, at)
		}
		for range rapid.IntRange(1, 15).Draw(r, "steps") {
			replica, wanted := rapid.IntRange(0, 1).Draw(r, "replica"), rapid.IntRange(1, 8).Draw(r, "wanted")
			before := clock() // the transaction reads the clock between before and after
			most := used(before)
			switch rapid.SampledFrom([]string{"pass", "take", "take all", "clean"}).Draw(r, "step") {
			case "pass":
				f.pass(t, rapid.SampledFrom([]time.Duration{5e9, 20e9, 59.5e9, 61e9, 200e9}).Draw(r, "time"))
			case "clean":
				testdb.Exec(t, f.pool, ratelimit.CleanSQL)
			case "take all":
				granted := f.takeAll(t, replica, limit, wanted)
				if now := used(clock()); granted && now > limit || !granted && most+wanted <= limit {
					r.Fatalf("%d of %d beside %d: granted %v, used %d", wanted, limit, most, granted, now)
				}
			case "take":
				d := f.take(t, replica, limit, wanted)
				s, after := f.replicas[replica].Status(f.key, limit), clock()
				if now := used(after); d.Granted > 0 && now > limit || d.Granted < min(wanted, limit-most) {
					r.Fatalf("%d of %d beside %d: %+v, used %d", wanted, limit, most, d, now)
				}
				if d.Granted == wanted {
					continue
				}
				early, late := used(before.Add(d.RetryAfter-instant)), used(after.Add(d.RetryAfter))
				if early < limit || late >= limit {
					r.Fatalf("retry after %s: %d permits are used shortly before, and %d then", d.RetryAfter, early, late)
				}
				if early, late = used(before.Add(s.Reset-instant)), used(after.Add(s.Reset)); early == 0 || late != 0 {
					r.Fatalf("reset after %s: %d permits are used shortly before, and %d then", s.Reset, early, late)
				}
			}
		}
	})
}

func TestGrantsWhatThereIs(t *testing.T) {
	t.Parallel()
	f := setup(t)
	begun := time.Now()
	got := []ratelimit.Decision{
		f.take(t, 0, 10, 7), f.take(t, 1, 10, 7), f.take(t, 0, 10, 7), f.take(t, 0, 10, 0), f.take(t, 0, 0, 1),
	}
	want := []ratelimit.Decision{
		{Granted: 7, Limit: 10, Remaining: 3},
		{Granted: 3, Limit: 10, RetryAfter: time.Minute},
		{Granted: 0, Limit: 10, RetryAfter: time.Minute},
		{Granted: 0, Limit: 10},
		{RetryAfter: time.Minute},
	}
	took := time.Since(begun)
	roughly := cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() <= took })
	if diff := cmp.Diff(want, got, roughly); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

// TestWindowsAreApart takes permits of several windows in one transaction, and each has a limit of its own. The takes
// of one transaction share what is free.
func TestWindowsAreApart(t *testing.T) {
	t.Parallel()
	f := setup(t)
	limits := map[ratelimit.Key]int{
		{Integration: f.key.Integration, Operation: ratelimit.Posts}:  1,
		{Integration: f.key.Integration, Operation: ratelimit.Novels}: 2,
		{Integration: uuid.New(), Operation: ratelimit.Posts}:         3,
		{Integration: uuid.New(), Operation: ratelimit.Lines}:         0,
	}
	for round := range 2 {
		f.transaction(t, 0, true, func(grants *ratelimit.Grants) {
			for k, limit := range limits {
				granted := 0
				for range 5 {
					granted += grants.Take(k, 1).Granted
				}
				if want := limit * (1 - round); granted != want {
					t.Errorf("round %d, %s: granted %d, want %d", round, k.Operation, granted, want)
				}
			}
		}, limits)
	}
	for k, limit := range limits {
		if _, refused := f.replicas[0].Refused(k, limit); !refused {
			t.Errorf("%s: not known to be full", k.Operation)
		}
	}
}

// TestFailedTransactionGrantsNothing: neither in the table, nor in the memory of the replica.
func TestFailedTransactionGrantsNothing(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.transaction(t, 0, false, func(grants *ratelimit.Grants) {
		if d := grants.Take(f.key, 2); d.Granted != 2 {
			t.Errorf("%+v", d)
		}
	}, map[ratelimit.Key]int{f.key: 2})
	if status := f.replicas[0].Status(f.key, 2); status.Remaining != 2 || f.stored(t) != 0 {
		t.Errorf("status %+v, %d permits stored", status, f.stored(t))
	}
	if d := f.take(t, 0, 2, 2); d.Granted != 2 {
		t.Errorf("then: %+v", d)
	}
}

// TestRefusalIsRemembered until a permit is free, and only for the limit that was reached.
func TestRefusalIsRemembered(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var clock atomic.Int64
	start := time.Now()
	limiter := ratelimit.New(func() time.Time { return start.Add(time.Duration(clock.Load())) })
	f.replicas[0] = limiter
	f.take(t, 0, 10, 9)
	if _, refused := limiter.Refused(f.key, 10); refused {
		t.Error("refused with a free permit")
	}
	f.pass(t, 20*time.Second)
	f.take(t, 0, 10, 1)
	wait, refused := limiter.Refused(f.key, 10)
	if !refused || wait > 40*time.Second || wait < 30*time.Second {
		t.Errorf("full: refused %v for %s", refused, wait)
	}
	for _, limit := range []int{9, 11} {
		if _, refused := limiter.Refused(f.key, limit); refused {
			t.Errorf("refused at the new limit of %d without asking the database", limit)
		}
	}
	clock.Add(int64(wait) - 1)
	if wait, refused := limiter.Refused(f.key, 10); !refused || wait != 1 {
		t.Errorf("a nanosecond before: refused %v for %s", refused, wait)
	}
	clock.Add(1)
	if _, refused := limiter.Refused(f.key, 10); refused {
		t.Error("refused when a permit is free")
	}
}

// TestTakeAllRemembersNoRefusal, because it does not know when a permit is free; it knows what is left.
func TestTakeAllRemembersNoRefusal(t *testing.T) {
	t.Parallel()
	f := setup(t)
	if !f.takeAll(t, 0, 5, 2) || !f.takeAll(t, 1, 5, 2) {
		t.Fatal("refused")
	}
	if s := f.replicas[1].Status(f.key, 5); s.Remaining != 1 || s.Reset <= 0 || s.Reset > ratelimit.Window {
		t.Errorf("status %+v", s)
	}
	if !f.takeAll(t, 0, 5, 1) || f.takeAll(t, 0, 5, 1) {
		t.Error("not exactly five were granted")
	}
	if wait, refused := f.replicas[0].Refused(f.key, 5); refused {
		t.Errorf("a refusal is remembered for %s", wait)
	}
}

func TestLimitChangesAtOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.take(t, 0, 60, 30)
	f.pass(t, 20*time.Second)
	f.take(t, 0, 60, 30)
	if d := f.take(t, 0, 70, 20); d.Granted != 10 {
		t.Errorf("raised by 10: granted %d", d.Granted)
	}
	if d := f.take(t, 0, 50, 1); d.Granted != 0 || d.RetryAfter > 40*time.Second {
		t.Errorf("lowered: %+v", d)
	}
	if d := f.take(t, 0, 30, 1); d.Granted != 0 || d.RetryAfter < 50*time.Second {
		t.Errorf("lowered further, so that the oldest thirty are not enough: %+v", d)
	}
	if d := f.replicas[0].Status(f.key, 100); d.Remaining != 30 {
		t.Errorf("status at limit 100: remaining %d, want 30", d.Remaining)
	}
	if d := f.take(t, 0, 81, 20); d.Granted != 11 {
		t.Errorf("raised again: granted %d, want 11", d.Granted)
	}
}

func TestStatusKnowsWithoutAsking(t *testing.T) {
	t.Parallel()
	f := setup(t)
	status := func() ratelimit.Decision { return f.replicas[0].Status(f.key, 60) }
	if diff := cmp.Diff(ratelimit.Decision{Limit: 60, Remaining: 60}, status()); diff != "" {
		t.Errorf("unknown window (-want +got):\n%s", diff)
	}
	begun := time.Now()
	f.take(t, 0, 60, 4)
	f.pool.Close()
	if d := status(); d.Limit != 60 || d.Remaining != 56 || d.Reset < time.Minute-time.Since(begun) ||
		d.Reset > time.Minute || d.Granted != 0 || d.RetryAfter != 0 {
		t.Errorf("status: %+v", d)
	}
	if d := f.replicas[0].Status(f.key, 0); d.Limit != 0 || d.Remaining != 0 {
		t.Errorf("status without a limit: %+v", d)
	}
}

// TestCleaning deletes what no longer counts, and nothing else.
func TestCleaning(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.take(t, 0, 10, 1)
	f.pass(t, 40*time.Second)
	f.take(t, 0, 10, 2)
	f.pass(t, 30*time.Second)
	testdb.Exec(t, f.pool, ratelimit.CleanSQL)
	if n := f.stored(t); n != 2 {
		t.Errorf("%d permits are stored", n)
	}
	if d := f.take(t, 1, 10, 10); d.Granted != 8 {
		t.Errorf("%+v", d)
	}
}

// TestClockThatIsSetBack: permits of the next minute count, later ones no longer after a cleaning.
func TestClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.take(t, 0, 60, 59)
	f.pass(t, -10*time.Second)
	f.take(t, 0, 60, 1) // after the others, although the clock says something else
	if d := f.take(t, 0, 60, 1); d.Granted != 0 || d.RetryAfter <= time.Minute || d.RetryAfter > 70*time.Second {
		t.Errorf("seconds back: %+v", d)
	}
	f.pass(t, -time.Hour)
	testdb.Exec(t, f.pool, ratelimit.CleanSQL)
	if d := f.take(t, 0, 60, 60); d.Granted != 60 || f.stored(t) != 60 {
		t.Errorf("an hour back: %+v, %d permits are stored", d, f.stored(t))
	}
}
