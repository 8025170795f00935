package ratelimit_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"novelgate/commands/ratelimit"
	"novelgate/internal/testdb"
)

// takeAll grants n permits, all or none, as the committer does without a read before.
func (f *fixture) takeAll(t testing.TB, replica, limit, n int) bool {
	t.Helper()
	grants := f.replicas[replica].NewGrants()
	grants.Want(f.key, limit)
	var batch pgx.Batch
	grants.QueueTake(&batch, map[ratelimit.Key]int{f.key: n})
	if err := f.pool.SendBatch(t.Context(), &batch).Close(); err != nil {
		if !isRefusal(err) {
			t.Fatalf("take %d of %d: %v", n, limit, err)
		}
		return false
	}
	grants.Committed()
	return true
}

// TestTakeAllOrNone: for any sequence of takes and pauses, it grants what a read before would grant, or nothing if that
// is less than was wanted.
func TestTakeAllOrNone(t *testing.T) {
	t.Parallel()
	f := setup(t)
	rapid.Check(t, func(rt *rapid.T) {
		testdb.Exec(t, f.pool, `DELETE FROM rate_limits`)
		limit := rapid.IntRange(1, 8).Draw(rt, "limit")
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			if rapid.Bool().Draw(rt, "pause") {
				f.pass(t, rapid.SampledFrom([]int{1, 30, 59, 62, 200}).Draw(rt, "seconds"))
				continue
			}
			n := rapid.IntRange(1, 5).Draw(rt, "permits")
			// Two seconds more than a minute, so that the test may last a second.
			least := testdb.Value[int](t, f.pool, `SELECT coalesce(sum(permits), 0) FROM rate_limits
				WHERE second > extract(epoch FROM clock_timestamp()) - 59`)
			most := testdb.Value[int](t, f.pool, `SELECT coalesce(sum(permits), 0) FROM rate_limits
				WHERE second > extract(epoch FROM clock_timestamp()) - 62`)
			switch granted := f.takeAll(t, rapid.IntRange(0, 1).Draw(rt, "replica"), limit, n); {
			case granted && least+n > limit:
				rt.Fatalf("%d were granted beside %d, of %d", n, least, limit)
			case !granted && most+n <= limit:
				rt.Fatalf("%d were refused beside %d, of %d", n, most, limit)
			}
		}
	})
}

// TestTakeTellsTheState: a replica that only takes without a read knows what is left, and remembers no refusal that may
// end earlier.
func TestTakeTellsTheState(t *testing.T) {
	t.Parallel()
	f := setup(t)
	if !f.takeAll(t, 0, 5, 2) || !f.takeAll(t, 1, 5, 2) {
		t.Fatal("refused")
	}
	if s := f.replicas[1].Status(f.key, 5); s.Remaining != 1 || s.Reset <= 0 || s.Reset > ratelimit.Window+1e9 {
		t.Errorf("status %+v", s)
	}
	f.pass(t, 59)
	if !f.takeAll(t, 0, 5, 1) || f.takeAll(t, 0, 5, 1) {
		t.Error("not exactly five were granted")
	}
	if wait, refused := f.replicas[0].Refused(f.key, 5); refused {
		t.Errorf("a refusal is remembered for %s", wait)
	}
}

// TestTakeDeletesOldSeconds: the table does not grow.
func TestTakeDeletesOldSeconds(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.takeAll(t, 0, 5, 1)
	f.pass(t, 100)
	f.takeAll(t, 1, 5, 1)
	if n := testdb.Value[int](t, f.pool, `SELECT count(*) FROM rate_limits`); n != 1 {
		t.Errorf("%d rows", n)
	}
}
