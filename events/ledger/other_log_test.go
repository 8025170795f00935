package ledger_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"novelgate/events/eventlog"
	"novelgate/events/ledger"
	"novelgate/internal/testdb"
)

// Events that were read and hashed from a log are not sealed in another one.
func TestEventsOfAnotherLogAreNotSealed(t *testing.T) {
	t.Parallel()
	pool, wake := newPool(t), eventlog.NewWake()
	appendEvents(t, pool, 3)
	if err := testdb.AwaitSettled(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	// first asked between reading and sealing
	startSealer(t, ledger.SealerConfig{Pool: pool, Wake: wake, Clock: func() time.Time {
		once.Do(func() { testdb.Lose(t, pool, `true`) })
		return time.Now()
	}})
	testdb.Eventually(t, "the log is another one", func() bool { return count(t, pool, "events") == 0 })
	appendEvents(t, pool, 5)
	wake.Signal()
	testdb.Eventually(t, "what is in the log is sealed", func() bool { return treeSize(t, pool) >= 5 })
	if size := treeSize(t, pool); size != 5 {
		t.Errorf("%d entries are sealed, the log has 5 events", size)
	}
}

// A ledger whose last entry is not in the log is not built upon, and says so; also when the log has another event
// in its place.
func TestDivergedLedgerIsNotBuiltUpon(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"lost":                       `DELETE FROM events WHERE position > 0`,
		"another event in its place": `UPDATE events SET recorded_at = recorded_at + interval '1 microsecond'`,
		"with other words":           `UPDATE events SET personal = '{}' WHERE personal IS NOT NULL`,
		"erased without its digest":  `UPDATE events SET personal = NULL, salt = NULL`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t)
			appendEvents(t, pool, 5)
			stop := startSealer(t, ledger.SealerConfig{Pool: pool})
			awaitSealed(t, pool)
			stop()
			if _, err := pool.Exec(t.Context(), `ALTER TABLE events DISABLE TRIGGER USER; `+change); err != nil {
				t.Fatal(err)
			}
			appendEvents(t, pool, 3)
			startSealer(t, ledger.SealerConfig{Pool: pool})
			testdb.Eventually(t, "the status says so", func() bool {
				status, err := ledger.ReadStatus(t.Context(), pool)
				return err == nil && status.Error != nil && strings.Contains(*status.Error, ledger.ErrDiverged.Error())
			})
			if size := treeSize(t, pool); size != 5 {
				t.Errorf("%d entries, want the 5 of before", size)
			}
		})
	}
}

// What an erasure takes away does not make a ledger diverge.
func TestErasedLastEventDoesNotDiverge(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	appendEvents(t, pool, 5)
	stop := startSealer(t, ledger.SealerConfig{Pool: pool})
	awaitSealed(t, pool)
	stop()
	if _, err := pool.Exec(t.Context(),
		`ALTER TABLE events DISABLE TRIGGER USER;
		UPDATE events SET personal = NULL, salt = NULL, personal_digest = personal_digest(salt, personal) WHERE personal IS NOT NULL`); err != nil {
		t.Fatal(err)
	}
	appendEvents(t, pool, 3)
	startSealer(t, ledger.SealerConfig{Pool: pool})
	awaitSealed(t, pool)
	if size := treeSize(t, pool); size != 8 {
		t.Errorf("%d entries, want 8", size)
	}
}
