package ratelimit_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"novelgate/commands/ratelimit"
	"novelgate/internal/testdb"
)

var ignoreSecond = cmpopts.IgnoreUnexported(ratelimit.Decision{})

func TestReplicasThatRaceGrantTheLimitExactly(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var granted atomic.Int64
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			for range 3 {
				granted.Add(int64(f.take(t, i%2, 60, 1+i%3).Granted))
			}
		})
	}
	all.Wait()
	if granted.Load() != 60 || f.stored(t) != 60 {
		t.Errorf("granted %d, stored %d, want 60", granted.Load(), f.stored(t))
	}
}

// TestWindowSlides compares the table, whose rows the test makes older, with a naive model.
func TestWindowSlides(t *testing.T) {
	t.Parallel()
	f := setup(t)
	rapid.Check(t, func(r *rapid.T) {
		f.key.Integration = uuid.New()
		limit := rapid.IntRange(1, 20).Draw(r, "limit")
		type give struct{ age, n int } // age without the time that the test takes
		var given []give
		start := time.Now()
		for range rapid.IntRange(1, 15).Draw(r, "takes") {
			passed := rapid.SampledFrom([]int{0, 1, 5, 20, 59, 60, 61, 62}).Draw(r, "seconds")
			f.pass(t, passed)
			for i := range given {
				given[i].age += passed
			}
			if time.Since(start) > 900*time.Millisecond { // ages must be less than a second too small
				return
			}
			least, most := 0, 0 // permits that count
			for _, g := range given {
				if g.age < 60 {
					least += g.n
				}
				if g.age <= 60 {
					most += g.n
				}
			}
			wanted := rapid.IntRange(1, 8).Draw(r, "wanted")
			d := f.take(t, 0, limit, wanted)
			if d.Granted > min(wanted, limit-least) || d.Granted < min(wanted, max(0, limit-most)) {
				r.Fatalf("granted %d of %d, limit %d, used %d to %d", d.Granted, wanted, limit, least, most)
			}
			given = append(given, give{0, d.Granted})
			if d.RetryAfter > 61*time.Second {
				r.Fatalf("retry after %s", d.RetryAfter)
			}
		}
	})
}

// TestEdgesOfTheWindow: a permit counts in its second and in the next sixty, so for 60 seconds at least.
func TestEdgesOfTheWindow(t *testing.T) {
	t.Parallel()
	f := setup(t)
	const now = `SELECT floor(extract(epoch FROM clock_timestamp()))::bigint`
	for age, granted := range map[int64]int{0: 0, 1: 0, 59: 0, 60: 0, 61: 1} {
		for {
			f.key.Integration = uuid.New()
			second := testdb.Value[int64](t, f.pool, now)
			testdb.Exec(t, f.pool, `INSERT INTO rate_limits VALUES ($1, $2, $3, 1)`,
				f.key.Integration, string(f.key.Operation), second-age)
			d := f.take(t, 0, 1, 1)
			if testdb.Value[int64](t, f.pool, now) != second {
				continue // perhaps it was older
			}
			if d.Granted != granted {
				t.Errorf("%d seconds after that of a permit: %+v", age, d)
			}
			break
		}
	}
}

// TestNeverEarly: when RetryAfter is over, one permit is free.
func TestNeverEarly(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, older := range []int{1, 30, 58} {
		f.key.Integration = uuid.New()
		f.take(t, 0, 3, 1)
		f.pass(t, older)
		f.take(t, 0, 3, 2)
		d := f.take(t, 1, 3, 1)
		if d.Granted != 0 || d.RetryAfter > time.Duration(61-older)*time.Second {
			t.Fatalf("after %d s: %+v", older, d)
		}
		f.pass(t, int((d.RetryAfter+time.Second-1)/time.Second))
		if d := f.take(t, 1, 3, 3); d.Granted < 1 {
			t.Errorf("after RetryAfter: %+v", d)
		}
	}
}

func TestGrantsWhatThereIs(t *testing.T) {
	t.Parallel()
	f := setup(t)
	begun := time.Now()
	got := []ratelimit.Decision{f.take(t, 0, 10, 7), f.take(t, 1, 10, 7), f.take(t, 0, 10, 7), f.take(t, 0, 10, 0)}
	want := []ratelimit.Decision{
		{Granted: 7, Limit: 10, Remaining: 3},
		{Granted: 3, Limit: 10, RetryAfter: time.Minute},
		{Granted: 0, Limit: 10, RetryAfter: time.Minute},
		{Granted: 0, Limit: 10},
	}
	took := time.Since(begun)
	roughly := cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() < took+time.Second })
	if diff := cmp.Diff(want, got, ignoreSecond, roughly); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

func TestLimitOfZeroGrantsNothing(t *testing.T) {
	t.Parallel()
	f := setup(t)
	want := ratelimit.Decision{RetryAfter: time.Minute}
	if diff := cmp.Diff(want, f.take(t, 0, 0, 1), ignoreSecond); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
	if wait, refused := f.replicas[0].Refused(f.key, 0); !refused || wait != time.Minute {
		t.Errorf("refused %v for %s", refused, wait)
	}
}

// TestWindowsAreApart takes permits of several windows in one transaction, and each has a limit of its own.
func TestWindowsAreApart(t *testing.T) {
	t.Parallel()
	f := setup(t)
	limits := map[ratelimit.Key]int{
		{Integration: f.key.Integration, Operation: ratelimit.Posts}:  1,
		{Integration: f.key.Integration, Operation: ratelimit.Novels}: 2,
		{Integration: uuid.New(), Operation: ratelimit.Posts}:         3,
		{Integration: uuid.New(), Operation: ratelimit.NovelUpdates}:  0,
	}
	for round := range 2 {
		f.transaction(t, true, func(grants *ratelimit.Grants) {
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

// transaction does what the committer does with windows of these limits, and commits or rolls back.
func (f *fixture) transaction(
	t testing.TB, commit bool, take func(*ratelimit.Grants), limits map[ratelimit.Key]int,
) {
	t.Helper()
	tx := testdb.Begin(t, f.pool)
	grants := f.replicas[0].NewGrants()
	for k, limit := range limits {
		grants.Want(k, limit)
	}
	var read, store pgx.Batch
	grants.QueueRead(&read)
	err := tx.SendBatch(t.Context(), &read).Close()
	if err == nil {
		take(grants)
		grants.QueueStore(&store)
		err = tx.SendBatch(t.Context(), &store).Close()
	}
	switch {
	case err == nil && commit:
		err = tx.Commit(t.Context())
		grants.Committed()
	case err == nil:
		err = tx.Rollback(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestFailedTransactionGrantsNothing: neither in the table, nor in the memory of the replica.
func TestFailedTransactionGrantsNothing(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.transaction(t, false, func(grants *ratelimit.Grants) {
		if d := grants.Take(f.key, 2); d.Granted != 2 {
			t.Errorf("%+v", d)
		}
	}, map[ratelimit.Key]int{f.key: 2})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if d, err := f.replicas[0].Take(ended, f.pool, f.key, 2, 2); !errors.Is(err, context.Canceled) || d.Granted != 0 {
		t.Errorf("after its context has ended: %+v, %v", d, err)
	}
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
	f.pass(t, 20)
	f.take(t, 0, 10, 1)
	wait, refused := limiter.Refused(f.key, 10)
	if !refused || wait > 41*time.Second || wait < 30*time.Second {
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

func TestLimitChangesAtOnce(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.take(t, 0, 60, 60)
	if d := f.take(t, 0, 70, 20); d.Granted != 10 {
		t.Errorf("raised by 10: granted %d", d.Granted)
	}
	if d := f.take(t, 0, 50, 1); d.Granted != 0 {
		t.Errorf("lowered: granted %d", d.Granted)
	}
	if d := f.replicas[0].Status(f.key, 100); d.Remaining != 30 {
		t.Errorf("status at limit 100: remaining %d, want 30", d.Remaining)
	}
	if d := f.take(t, 0, 81, 20); d.Granted != 11 {
		t.Errorf("raised again: granted %d, want 11", d.Granted)
	}
}

// TestReturn: returned permits are free at once, in each replica.
func TestReturn(t *testing.T) {
	t.Parallel()
	f := setup(t)
	give := func(taken ratelimit.Decision, n int) {
		t.Helper()
		if err := f.replicas[0].Return(t.Context(), f.pool, f.key, taken, n); err != nil {
			t.Fatalf("return %d: %v", n, err)
		}
	}
	taken := f.take(t, 0, 60, 60)
	f.take(t, 1, 60, 1) // refused
	give(taken, 5)
	if status := f.replicas[0].Status(f.key, 60); status.Remaining != 5 {
		t.Errorf("status %+v, want 5 free", status)
	}
	if d := f.take(t, 1, 60, 2); d.Granted != 2 {
		t.Errorf("the other replica: granted %d of the 5 that came back", d.Granted)
	}
	if d := f.take(t, 0, 60, 9); d.Granted != 3 {
		t.Errorf("granted %d, want the last 3 that came back", d.Granted)
	}
	give(taken, 0)
	give(taken, -3)
	give(ratelimit.Decision{}, 3)
	if d := f.take(t, 1, 60, 1); d.Granted != 0 {
		t.Errorf("granted %d after nothing came back", d.Granted)
	}
}

// TestReturnOfEarlierPermits does not free later ones.
func TestReturnOfEarlierPermits(t *testing.T) {
	t.Parallel()
	f := setup(t)
	early := f.take(t, 0, 100, 60)
	second := testdb.Value[int64](t, f.pool, `SELECT second FROM rate_limits`)
	testdb.Exec(t, f.pool, `INSERT INTO rate_limits SELECT integration_id, operation, second + 30, 40 FROM rate_limits`)
	if err := f.replicas[0].Return(t.Context(), f.pool, f.key, early, 59); err != nil {
		t.Fatal(err)
	}
	type row struct {
		Age     int64
		Permits int
	}
	rows, err := f.pool.Query(t.Context(), `SELECT second - $1, permits FROM rate_limits ORDER BY 1`, second)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if diff := cmp.Diff([]row{{0, 1}, {30, 40}}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestStatusKnowsWithoutAsking(t *testing.T) {
	t.Parallel()
	f := setup(t)
	status := func() ratelimit.Decision { return f.replicas[0].Status(f.key, 60) }
	if diff := cmp.Diff(ratelimit.Decision{Limit: 60, Remaining: 60}, status(), ignoreSecond); diff != "" {
		t.Errorf("unknown window (-want +got):\n%s", diff)
	}
	begun := time.Now()
	f.take(t, 0, 60, 4)
	f.pool.Close()
	if d := status(); d.Limit != 60 || d.Remaining != 56 || d.Reset < time.Minute-time.Since(begun) ||
		d.Reset > 61*time.Second || d.Granted != 0 || d.RetryAfter != 0 {
		t.Errorf("status: %+v", d)
	}
	if d := f.replicas[0].Status(f.key, 0); d.Limit != 0 || d.Remaining != 0 {
		t.Errorf("status without a limit: %+v", d)
	}
}

// TestResetOfARefusal is the time until the old permits are free: a refusal grants nothing.
func TestResetOfARefusal(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.take(t, 0, 4, 4)
	f.pass(t, 40)
	f.take(t, 0, 4, 1)
	if status := f.replicas[0].Status(f.key, 4); status.Reset > 21*time.Second || status.Remaining != 0 {
		t.Errorf("status %+v", status)
	}
}

// TestOldSecondsAreDeleted: the table has at most about a minute of a window.
func TestOldSecondsAreDeleted(t *testing.T) {
	t.Parallel()
	f := setup(t)
	most := 0
	for range 150 {
		f.take(t, 0, 1_000_000, 3)
		most = max(most, testdb.Value[int](t, f.pool, `SELECT count(*) FROM rate_limits`))
		f.pass(t, 1)
	}
	if most < 60 || most > 64 {
		t.Errorf("%d rows", most)
	}
}

// TestTableAfterTheClockWasSetBack: permits of the next minute count, later ones do not, and they are deleted.
func TestTableAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.take(t, 0, 60, 60)
	f.pass(t, -10)
	if d := f.take(t, 0, 60, 1); d.Granted != 0 || d.RetryAfter <= time.Minute || d.RetryAfter > 71*time.Second {
		t.Errorf("seconds back: %+v", d)
	}
	f.pass(t, -3600)
	if d := f.take(t, 0, 60, 60); d.Granted != 60 {
		t.Errorf("an hour back: %+v", d)
	}
	if n := f.stored(t); n != 60 {
		t.Errorf("%d permits are stored", n)
	}
}

func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.pool.Close()
	if d, err := f.replicas[0].Take(t.Context(), f.pool, f.key, 60, 1); err == nil || d.Granted != 0 {
		t.Errorf("closed pool: %+v, error %v", d, err)
	}
	if err := f.replicas[0].Return(t.Context(), f.pool, f.key, ratelimit.Decision{Granted: 1}, 1); err == nil {
		t.Error("returned without a database")
	}
}
