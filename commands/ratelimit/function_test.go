package ratelimit_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

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

// give is a number of permits to give back, and their charge.
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

// fataler is what *testing.T and *rapid.T have in common here.
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

func TestBurstComesBackAfterAMinuteAndNotBefore(t *testing.T) {
	t.Parallel()
	s := simulate(setup(t, 0).pool)
	start := s.clock
	if o := s.take(t, 60, 59, 100); o.Granted != 59 || o.Leased != 0 || o.RetryAfter != 0 {
		t.Fatalf("burst: %+v", o)
	}
	s.advance(99*time.Millisecond + 999*microsecond)
	got := s.take(t, 60, 5, 100)
	want := outcome{
		Granted: 1, Used: 60, GrantedAt: s.clock, LeasedUntil: s.clock.Add(leaseTime),
		RetryAfter: start.Add(time.Minute + microsecond).Sub(s.clock), ResetAfter: time.Minute + microsecond,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("end of the burst (-want +got):\n%s", diff)
	}

	s.clock = start.Add(time.Minute) // both ends of the minute count
	if o := s.take(t, 60, 1, 100); o.Granted != 0 || o.RetryAfter != microsecond {
		t.Errorf("at a minute exactly: %+v", o)
	}
	s.advance(microsecond)
	if o := s.take(t, 60, 60, 100); o.Granted != 59 {
		t.Errorf("after a minute: granted %d, want 59", o.Granted)
	}
}

func TestRetryAfterIsNeitherEarlyNorLate(t *testing.T) {
	t.Parallel()
	s := simulate(setup(t, 0).pool)
	for range 10 {
		s.take(t, 10, 1, 100)
		s.advance(1234567 * microsecond)
	}
	for range 30 {
		refused := s.take(t, 10, 1, 100)
		if refused.Granted != 0 || refused.RetryAfter <= 0 || refused.RetryAfter > time.Minute+microsecond {
			t.Fatalf("full window: %+v", refused)
		}
		s.advance(refused.RetryAfter - microsecond)
		if o := s.take(t, 10, 1, 100); o.Granted != 0 {
			t.Fatalf("granted %d before RetryAfter", o.Granted)
		}
		s.advance(microsecond)
		if o := s.take(t, 10, 2, 100); o.Granted != 1 {
			t.Fatalf("granted %d after RetryAfter, want 1", o.Granted)
		}
	}
}

func TestLoweredLimitWaitsForSeveralPermits(t *testing.T) {
	t.Parallel()
	s := simulate(setup(t, 0).pool)
	for range 10 {
		s.take(t, 10, 1, 100)
		s.advance(time.Second)
	}
	// Ten count, four may: the seventh oldest has to leave.
	o := s.take(t, 4, 1, 100)
	if want := 56*time.Second + microsecond; o.Granted != 0 || o.RetryAfter != want {
		t.Fatalf("granted %d, retry after %s, want 0 and %s", o.Granted, o.RetryAfter, want)
	}
	s.advance(o.RetryAfter)
	if o := s.take(t, 4, 4, 100); o.Granted != 1 {
		t.Errorf("granted %d, want 1", o.Granted)
	}
}

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

func TestReturnedPermitsLeaveTheirOwnCharge(t *testing.T) {
	t.Parallel()
	s := simulate(setup(t, 0).pool)
	start := s.clock
	first := s.take(t, 60, 30, 100)
	s.advance(10 * time.Second)
	second := s.take(t, 60, 30, 100)
	s.advance(10 * time.Second)
	if o := s.take(t, 60, 60, 100, give{at: second.GrantedAt, n: 10}); o.Granted != 10 {
		t.Errorf("granted %d, want the 10 returned", o.Granted)
	}
	s.clock = start.Add(time.Minute + microsecond)
	if o := s.take(t, 60, 0, 100); o.Used != 30 {
		t.Errorf("%d count after the first charge, want 30", o.Used)
	}
	// Too late: the charge is gone, and the younger ones are none of its business.
	if o := s.take(t, 60, 0, 100, give{at: first.GrantedAt, n: 5}); o.Used != 30 {
		t.Errorf("%d count after a late return, want 30", o.Used)
	}
	// More than there is.
	if o := s.take(t, 60, 0, 100, give{at: second.GrantedAt, n: 1000}); o.Used != 10 {
		t.Errorf("%d count after an excessive return, want 10", o.Used)
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
		var entries int
		if err := s.pool.QueryRow(t.Context(),
			`SELECT cardinality(charged_at) FROM rate_limits WHERE integration_id = $1`, s.integration).Scan(&entries); err != nil {
			t.Fatalf("count entries: %v", err)
		}
		most = max(most, entries)
		s.advance(160 * time.Millisecond)
	}
	if most > 130 {
		t.Errorf("the row grew to %d entries", most)
	}
	if peak := log.peak(); peak > 250 {
		t.Errorf("%d permits granted within a minute", peak)
	}
	// 6.25/s are wanted, 250/60.5 s to 250/60 s are to be had.
	if total := log.total(); total < 490 || total > 500 {
		t.Errorf("%d permits granted in two minutes, want nearly 500", total)
	}
	s.advance(time.Minute + time.Second)
	if o := s.take(t, 250, 250, 0); o.Granted != 250 {
		t.Errorf("granted %d of a window that had rested", o.Granted)
	}
}
