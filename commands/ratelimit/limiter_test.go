package ratelimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/commands/ratelimit"
	"novelgate/internal/testdb"
)

var ignoreHandle = cmpopts.IgnoreUnexported(ratelimit.Decision{})

func TestReplicasThatRaceGrantTheLimitExactly(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	var granted atomic.Int64
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			for range 3 {
				granted.Add(int64(b.take(t, i%2, 60, 1).Granted))
			}
		})
	}
	all.Wait()
	if granted.Load() != 60 {
		t.Errorf("granted %d, want 60", granted.Load())
	}
}

func TestLeasesOfTwoReplicasStayWithinTheLimit(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	const limit = 5000
	var granted atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			// After this many refusals every lease has been returned: all permits are used, and none is lost.
			for refused := 0; refused < 600; refused++ {
				if n := b.take(t, i%2, limit, 1+i%3).Granted; n > 0 {
					granted.Add(int64(n))
					refused = 0
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	all.Wait()
	if granted.Load() != limit {
		t.Errorf("granted %d, want %d", granted.Load(), limit)
	}
	if n := b.charged(t); n != limit {
		t.Errorf("the database counts %d, want %d", n, limit)
	}
}

func TestFullWindowIsNotAskedAgainAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	full := time.Now()
	b.take(t, 0, 60, 60)
	longest := time.Since(full) // call: the database reads the clock at some time in between
	before, start := b.calls.n.Load(), time.Now()
	free := start.Add(b.take(t, 0, 60, 1).RetryAfter)
	for range 20_000 {
		began := time.Now()
		d := b.take(t, 0, 60, 1)
		longest = max(longest, time.Since(began))
		if early := free.Sub(time.Now().Add(d.RetryAfter)); early > longest {
			t.Fatalf("a refusal promises a permit %v earlier than the one before, with no call longer than %v", early, longest)
		}
		if d.Granted != 0 || d.Remaining != 0 || d.RetryAfter > time.Minute+time.Second ||
			d.RetryAfter < time.Minute-time.Since(full) {
			t.Fatalf("full window: %+v", d)
		}
	}
	allowed := 3 + int64(time.Since(start)/(100*time.Millisecond))
	if n := b.calls.n.Load() - before; n > allowed {
		t.Errorf("%d calls, want at most %d", n, allowed)
	}
}

func TestGrantsWhatThereIs(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	begun := time.Now()
	got := []ratelimit.Decision{b.take(t, 0, 10, 7), b.take(t, 0, 10, 7), b.take(t, 0, 10, 7)}
	want := []ratelimit.Decision{
		{Granted: 7, Limit: 10, Remaining: 3, Reset: time.Minute},
		{Granted: 3, Limit: 10, RetryAfter: time.Minute, Reset: time.Minute},
		{Granted: 0, Limit: 10, RetryAfter: time.Minute, Reset: time.Minute},
	}
	took := time.Since(begun)
	roughly := cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() < took+time.Second })
	if diff := cmp.Diff(want, got, ignoreHandle, roughly); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

func TestLimitOfZeroGrantsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	want := ratelimit.Decision{RetryAfter: time.Minute}
	if diff := cmp.Diff(want, b.take(t, 0, 0, 1), ignoreHandle); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
}

func TestOperationsAndIntegrationsAreApart(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.take(t, 0, 1, 1)
	for _, other := range []struct {
		integration uuid.UUID
		operation   ratelimit.Operation
	}{{b.integration, ratelimit.Novels}, {uuid.New(), ratelimit.Posts}} {
		d, err := b.replicas[0].Take(t.Context(), other.integration, other.operation, 1, 1)
		if err != nil || d.Granted != 1 {
			t.Errorf("%v: granted %d, error %v", other, d.Granted, err)
		}
	}
}

func TestReturn(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	give := func(d ratelimit.Decision, n int) {
		t.Helper()
		if err := b.replicas[0].Return(t.Context(), b.integration, ratelimit.Posts, d, n); err != nil {
			t.Fatalf("return %d: %v", n, err)
		}
	}
	taken := b.take(t, 0, 60, 60)
	b.take(t, 0, 60, 1) // refused, and the refusal is cached
	give(taken, 5)
	if d := b.take(t, 0, 60, 9); d.Granted != 5 {
		t.Errorf("granted %d, want the 5 that came back", d.Granted)
	}
	give(taken, 0)
	give(taken, -3)
	give(ratelimit.Decision{}, 3)
	if d := b.take(t, 1, 60, 1); d.Granted != 0 {
		t.Errorf("granted %d after nothing came back", d.Granted)
	}
	give(taken, 1000) // no more than it granted
	// The other replica caches its refusal for a moment.
	testdb.Eventually(t, "the other replica asks again", func() bool { return b.take(t, 1, 60, 60).Granted > 0 })
}

func TestReturnToALease(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	const limit = 10_000_000
	taken := 0
	for range 200 { // with and without leases
		d := b.take(t, 0, limit, 5)
		taken += d.Granted
		if err := b.replicas[0].Return(t.Context(), b.integration, ratelimit.Posts, d, 2); err != nil {
			t.Fatalf("return: %v", err)
		}
		taken -= 2
		time.Sleep(2 * time.Millisecond)
	}
	testdb.Eventually(t, "everything unused comes back", func() bool { return b.charged(t) == taken })
}

func TestLimitChangesAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.take(t, 0, 60, 60)
	if d := b.take(t, 0, 70, 20); d.Granted != 10 {
		t.Errorf("raised by 10: granted %d", d.Granted)
	}
	if d := b.take(t, 0, 50, 1); d.Granted != 0 {
		t.Errorf("lowered: granted %d", d.Granted)
	}
	if d := b.replicas[0].Status(b.integration, ratelimit.Posts, 100); d.Remaining != 30 {
		t.Errorf("status at limit 100: remaining %d, want 30", d.Remaining)
	}
	for range 10 {
		b.take(t, 0, 1_000_000, 1) // takes a lease
	}
	if d := b.take(t, 0, 81, 5); d.Granted != 1 {
		t.Errorf("lowered during a lease: granted %d, want 1", d.Granted)
	}
}

// TestLeaseRunsFromTheCall: the lease in a slow answer has ended already.
func TestLeaseRunsFromTheCall(t *testing.T) {
	t.Parallel()
	b := setup(t, 0)
	var late atomic.Int64
	start := time.Now()
	limiter := ratelimit.New(b.pool, func() time.Time { return start.Add(time.Duration(late.Load())) })
	t.Cleanup(limiter.Close)
	b.replicas = append(b.replicas, limiter)
	const limit = 1_000_000
	b.take(t, 0, limit, 1)
	release := b.block(t)
	var call sync.WaitGroup
	call.Go(func() { b.take(t, 0, limit, 1) }) // soon after another one, so it brings a lease
	testdb.Eventually(t, "the call is under way", func() bool { return b.pool.Stat().AcquiredConns() == 2 })
	late.Store(int64(200 * time.Millisecond))
	release()
	call.Wait()
	if n := b.charged(t); n <= 2 {
		t.Fatalf("%d permits charged: there is no lease", n)
	}
	before := b.calls.n.Load()
	if b.take(t, 0, limit, 1); b.calls.n.Load() == before {
		t.Error("a permit was spent from a lease that had ended")
	}
}

// TestLostAnswer: permits returned by a repeated call are returned once.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	config := b.pool.Config()
	config.MaxConns = 1
	var cut atomic.Bool
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &cutConn{Conn: conn, cut: &cut}, err
	}
	pool := testdb.Must(pgxpool.NewWithConfig(t.Context(), config))(t)
	t.Cleanup(pool.Close)
	limiter := ratelimit.New(pool, time.Now)
	t.Cleanup(limiter.Close)
	taken, err := limiter.Take(t.Context(), b.integration, ratelimit.Posts, 60, 60)
	if err != nil || taken.Granted != 60 {
		t.Fatalf("granted %d, %v", taken.Granted, err)
	}
	cut.Store(true)
	if err := limiter.Return(t.Context(), b.integration, ratelimit.Posts, taken, 5); err != nil {
		t.Fatal(err)
	}
	if cut.Load() {
		t.Fatal("no answer was lost")
	}
	if n := b.charged(t); n != 55 {
		t.Errorf("%d permits charged, want 55", n)
	}
}

// cutConn loses an answer on request.
type cutConn struct {
	net.Conn
	cut *atomic.Bool
}

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.cut.CompareAndSwap(true, false) {
		_ = c.Close()
		return 0, io.EOF
	}
	return n, err
}

// TestWaitingTakesKeepTheirLimits: takes that wait while staff change the limit do not share a call.
func TestWaitingTakesKeepTheirLimits(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.take(t, 0, 60, 1)
	release := b.block(t)
	var granted [3]int
	var all sync.WaitGroup
	for i, limit := range []int{60, 60, 3} {
		all.Go(func() { granted[i] = b.take(t, 0, limit, 5).Granted })
		testdb.Eventually(t, "the call is under way, and the others wait for the next", func() bool {
			return b.pool.Stat().AcquiredConns() == 2 && b.replicas[0].Waiting(b.integration, ratelimit.Posts) == i
		})
	}
	release()
	all.Wait()
	if want := [3]int{5, 5, 0}; granted != want {
		t.Errorf("granted %v, want %v", granted, want)
	}
}

func TestStatusKnowsWithoutAsking(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	status := func() ratelimit.Decision { return b.replicas[0].Status(b.integration, ratelimit.Posts, 60) }
	if diff := cmp.Diff(ratelimit.Decision{Limit: 60, Remaining: 60}, status(), ignoreHandle); diff != "" {
		t.Errorf("unknown window (-want +got):\n%s", diff)
	}
	begun := time.Now()
	b.take(t, 0, 60, 4)
	before := b.calls.n.Load()
	if d := status(); d.Limit != 60 || d.Remaining != 56 || d.Reset < time.Minute-time.Since(begun) || d.Granted != 0 ||
		d.RetryAfter != 0 {
		t.Errorf("status: %+v", d)
	}
	if b.calls.n.Load() != before {
		t.Error("Status asked the database")
	}
}

func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.take(t, 0, 60, 1)
	b.pool.Close()
	if d, err := b.replicas[0].Take(t.Context(), b.integration, ratelimit.Posts, 60, 1); err == nil || d.Granted != 0 {
		t.Errorf("closed pool: %+v, error %v", d, err)
	}

	away := ratelimit.New(newPool(t, "postgres://nobody@localhost/none?host="+t.TempDir(), nil), time.Now)
	t.Cleanup(away.Close)
	if d, err := away.Take(t.Context(), b.integration, ratelimit.Posts, 60, 1); err == nil || d.Granted != 0 {
		t.Errorf("no server: %+v, error %v", d, err)
	}
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.take(t, 0, 60, 1)
	release := b.block(t)
	var first ratelimit.Decision
	var all sync.WaitGroup
	all.Go(func() { first = b.take(t, 0, 60, 1) }) // under way, with no deadline
	testdb.Eventually(t, "the call is under way", func() bool { return b.pool.Stat().AcquiredConns() == 2 })

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for range 10 {
		d, err := b.replicas[0].Take(ctx, b.integration, ratelimit.Posts, 60, 1)
		if !errors.Is(err, context.DeadlineExceeded) || d.Granted != 0 {
			t.Errorf("granted %d, error %v, want a deadline exceeded", d.Granted, err)
		}
	}
	release()
	all.Wait()
	if first.Granted != 1 {
		t.Errorf("its neighbour got %d, want 1", first.Granted)
	}
	if n := b.charged(t); n != 2 {
		t.Errorf("%d permits charged, want 2: who gave up before the call is left out", n)
	}
}

func TestCallEndsWithItsLastRequest(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.take(t, 0, 60, 1)
	release := b.block(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := b.replicas[0].Take(ctx, b.integration, ratelimit.Posts, 60, 1); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("error %v, want a deadline exceeded", err)
	}
	release()
	// The server may have executed the abandoned call.
	if d := b.take(t, 0, 60, 60); d.Granted < 58 || d.Granted > 59 {
		t.Errorf("granted %d afterwards, want 59, or 58", d.Granted)
	}
}

func TestCloseGivesLeasesBack(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	for range 20 {
		b.take(t, 0, 1_000_000, 1)
	}
	begun := time.Now()
	b.replicas[0].Close()
	// Close waits for the database for two seconds.
	if took := time.Since(begun); took < 2*time.Second {
		if n := b.charged(t); n != 20 {
			t.Errorf("%d permits charged, want 20", n)
		}
	}
	b.replicas[0].Close() // a second Close does no harm
	if _, err := b.replicas[0].Take(t.Context(), b.integration, ratelimit.Posts, 60, 1); !errors.Is(err,
		ratelimit.ErrClosed) {
		t.Errorf("take: error %v, want ErrClosed", err)
	}
	if _, err := b.replicas[0].Take(t.Context(), uuid.New(), ratelimit.Posts, 60, 1); !errors.Is(err,
		ratelimit.ErrClosed) {
		t.Errorf("take of a new window: error %v, want ErrClosed", err)
	}
}
