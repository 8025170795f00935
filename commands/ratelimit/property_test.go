package ratelimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"novelgate/internal/testdb"
)

// ledger is the reference model: all grants with their times.
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

// peak is the maximum of any minute: only minutes that end with a grant matter.
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

// drawStep draws a time step: none, an instant, about a merge, about a minute.
func drawStep(t *rapid.T) time.Duration {
	spans := []time.Duration{
		0, 10 * microsecond, 300 * time.Millisecond, 3 * time.Second, 20 * time.Second, 61 * time.Second,
	}
	return microsecond * time.Duration(
		rapid.Int64Range(0, int64(rapid.SampledFrom(spans).Draw(t, "span")/microsecond)).Draw(t, "step"))
}

// TestSmallWindowEqualsTheNaiveModel: without leases and with few charges, the function grants the same as the
// reference model, for any limits and returns.
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
			// RetryAfter is exact: one permit is free then, and none a microsecond before.
			free := func(after time.Duration) bool { return log.within(s.clock.Add(after)) < limit }
			if !free(o.RetryAfter) || o.RetryAfter > 0 && free(o.RetryAfter-microsecond) {
				t.Fatalf("%d of %d used, retry after %s", o.Used, limit, o.RetryAfter)
			}
		}
	})
}

// TestNoMinuteSeesMoreThanTheLimit: with leases used at any time, and with merged charges, no minute exceeds the limit;
// and an idle window is full again.
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

const (
	microsecond = time.Microsecond
	leaseTime   = 200 * time.Millisecond
)

// simulation calls rate_limit_take with a clock of its own.
type simulation struct {
	pool        *pgxpool.Pool
	integration uuid.UUID
	clock       time.Time
}

// give is a number of permits to return, and their charge.
type give struct {
	at time.Time
	n  int64
}

type outcome struct {
	Granted, Leased, Used  int
	GrantedAt, LeasedUntil time.Time
	RetryAfter, ResetAfter time.Duration
}

func simulate(pool *pgxpool.Pool) *simulation {
	return &simulation{pool: pool, integration: uuid.New(), clock: time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)}
}

// fataler is the common part of *testing.T and *rapid.T.
type fataler interface {
	Helper()
	Context() context.Context
	Fatalf(format string, args ...any)
}

func (s *simulation) take(t fataler, limit, wanted, share int, back ...give) outcome {
	t.Helper()
	at, n := []time.Time{}, []int64{}
	for _, g := range back {
		at, n = append(at, g.at), append(n, g.n)
	}
	var o outcome
	err := s.pool.QueryRow(t.Context(),
		`SELECT granted, leased, used, granted_at, leased_until, retry_after, reset_after
		FROM rate_limit_take($1, 'posts', $2, $3, $4, $5, $6, $7, $8)`,
		s.integration, limit, wanted, share, leaseTime, at, n, s.clock,
	).Scan(&o.Granted, &o.Leased, &o.Used, &o.GrantedAt, &o.LeasedUntil, &o.RetryAfter, &o.ResetAfter)
	if err != nil {
		t.Fatalf("take %d of %d: %v", wanted, limit, err)
	}
	return o
}

func (s *simulation) advance(d time.Duration) { s.clock = s.clock.Add(d) }

func TestLeaseCountsFromItsEnd(t *testing.T) {
	t.Parallel()
	s := simulate(setup(t, 0).pool)
	start := s.clock
	o := s.take(t, 1001, 1, 100)
	if o.Leased != 10 || !o.LeasedUntil.Equal(start.Add(leaseTime)) {
		t.Fatalf("lease: %+v", o)
	}
	s.clock = start.Add(time.Minute + leaseTime)
	if o := s.take(t, 1001, 2000, 0); o.Granted != 991 {
		t.Errorf("a minute after the last use of the lease: granted %d, want 991", o.Granted)
	}
	s.advance(microsecond)
	if o := s.take(t, 1001, 2000, 0); o.Granted != 10 {
		t.Errorf("after that: granted %d, want 10", o.Granted)
	}
}

func TestClockThatStepsBack(t *testing.T) {
	t.Parallel()
	pool := setup(t, 0).pool

	s := simulate(pool)
	s.take(t, 60, 60, 100)
	s.advance(-10 * time.Second)
	o := s.take(t, 60, 1, 100)
	if want := 70*time.Second + microsecond; o.Granted != 0 || o.RetryAfter != want {
		t.Errorf("seconds back: granted %d, retry after %s, want 0 and %s", o.Granted, o.RetryAfter, want)
	}
	s.advance(o.RetryAfter)
	if o := s.take(t, 60, 60, 100); o.Granted != 60 {
		t.Errorf("seconds back, later: granted %d, want 60", o.Granted)
	}

	s.advance(-time.Hour) // must not mean an hour without permits
	o = s.take(t, 60, 1, 100)
	if want := time.Minute + microsecond; o.Granted != 0 || o.RetryAfter != want {
		t.Errorf("an hour back: granted %d, retry after %s, want 0 and %s", o.Granted, o.RetryAfter, want)
	}
	s.advance(o.RetryAfter)
	if o := s.take(t, 60, 60, 100); o.Granted != 60 {
		t.Errorf("an hour back, later: granted %d, want 60", o.Granted)
	}
}

func TestBusyWindowStaysSmall(t *testing.T) {
	t.Parallel()
	s := simulate(setup(t, 0).pool)
	var log ledger
	most := 0
	for range 750 { // two minutes, 6 takes a second
		log.grant(s.clock, s.take(t, 250, 1, 0).Granted)
		most = max(most, testdb.Value[int](t, s.pool,
			`SELECT cardinality(charged_at) FROM rate_limits WHERE integration_id = $1`, s.integration))
		s.advance(160 * time.Millisecond)
	}
	if most > 130 {
		t.Errorf("the row grew to %d entries", most)
	}
	if peak := log.peak(); peak > 250 {
		t.Errorf("%d permits granted within a minute", peak)
	}
	// 6.25/s are requested; between 250/60.5 s and 250/60 s are possible.
	if total := log.total(); total < 490 || total > 500 {
		t.Errorf("%d permits granted in two minutes, want nearly 500", total)
	}
	s.advance(time.Minute + time.Second)
	if o := s.take(t, 250, 250, 0); o.Granted != 250 {
		t.Errorf("granted %d of a window that had rested", o.Granted)
	}
}
