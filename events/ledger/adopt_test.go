package ledger_test

import (
	"testing"

	"novelgate/events/ledger"
	"novelgate/internal/testdb"
)

// TestAdoptAtOnce: two processes adopt a checkpoint at once and do not deadlock, wherever they meet.
func TestAdoptAtOnce(t *testing.T) {
	t.Parallel()
	pool := newSealedPool(t, 5)
	signer := newSigner(t, pool, ledger.IdentityConfig{})
	sign(t, signer)
	last, keys := latest(t, pool), signer.Keys()

	blocker := testdb.Begin(t, pool)
	testdb.Exec(t, blocker, `LOCK TABLE ledger_checkpoints`)
	watcher := testdb.Pool(t, pool.Config().ConnString())
	const processes = 2
	ended := make(chan error, processes)
	for range processes {
		go func() {
			adopted, err := ledger.Adopt(t.Context(), pool, last, keys)
			if err == nil && !adopted {
				t.Error("not adopted")
			}
			ended <- err
		}()
	}
	testdb.Eventually(t, "both wait for a lock", func() bool {
		return testdb.Value[int](t, watcher, `SELECT count(*)::int FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND datname = current_database()`) == processes
	})
	if err := blocker.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range processes {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
