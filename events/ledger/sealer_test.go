package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/eventlog"
	"novelgate/events/ledger"
	"novelgate/events/ledger/ledgertest"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
)

func TestSealerFollowsTheLog(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	wantSound(t, pool)
	appendEvents(t, pool, 3)
	stop := startSealer(t, ledger.SealerConfig{Pool: pool})
	awaitSealed(t, pool)
	wantSound(t, pool)
	for range 40 {
		appendEvents(t, pool, 1+rand.IntN(40))
		if rand.IntN(8) == 0 {
			awaitSealed(t, pool)
		}
	}
	awaitSealed(t, pool)
	wantSound(t, pool)
	// Another sealer continues, and seals in parts what was appended together.
	stop()
	for _, n := range []int{2, 700, 1, 100, 99, 101, 5} {
		appendEvents(t, pool, n)
	}
	startSealer(t, ledger.SealerConfig{Pool: pool, Limit: 100})
	awaitSealed(t, pool)
	if leaves := wantSound(t, pool); len(leaves) < 1051 {
		t.Errorf("only %d leaves", len(leaves))
	}
}

// TestSealerWakesUp: events are sealed after a signal, without waiting for the next poll.
func TestSealerWakesUp(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	wake := eventlog.NewWake()
	sealer := ledger.NewSealer(ledger.SealerConfig{Pool: pool, Wake: wake, Logger: slog.New(slog.DiscardHandler)})
	sealer.SetPoll(time.Hour)
	testdb.Background(t, sealer.Run)
	for range 5 {
		appendEvents(t, pool, 1)
		wake.Signal()
		awaitSealed(t, pool)
	}
}

// TestSealersExcludeEachOther: several sealers start and stop on one database during appends. Losing to another one is
// not an error.
func TestSealersExcludeEachOther(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	var wg sync.WaitGroup
	var lines testdb.Log
	appending, done := context.WithCancel(t.Context())
	for range 3 {
		wg.Go(func() {
			for appending.Err() == nil {
				if err := ledgertest.TryAppend(appending, pool, 1+rand.IntN(20)); err != nil && appending.Err() == nil {
					t.Error(err)
					return
				}
				time.Sleep(rand.N(3 * time.Millisecond))
			}
		})
	}
	url := pool.Config().ConnString()
	for range 3 {
		own := openPool(t, url)
		wg.Go(func() {
			for appending.Err() == nil {
				config := ledger.SealerConfig{Pool: own, Limit: 1 + rand.IntN(300), Logger: lines.Logger()}
				stop := startSealer(t, config) //nolint:contextcheck // stop ends it
				time.Sleep(rand.N(300 * time.Millisecond))
				stop()
			}
		})
	}
	time.Sleep(3 * time.Second)
	done()
	wg.Wait()
	startSealer(t, ledger.SealerConfig{Pool: pool})
	awaitSealed(t, pool)
	leaves := wantSound(t, pool)
	t.Logf("%d leaves", len(leaves))
	if text := lines.String(); strings.Contains(text, "cannot be sealed") {
		t.Error(text)
	}
}

// TestErasureKeepsTheLedger: entries have digests, so an erasure does not change them, also not the last one, where a
// sealer continues.
func TestErasureKeepsTheLedger(t *testing.T) {
	t.Parallel()
	pool := newSealedPool(t, 10)
	leaves := wantSound(t, pool)
	_, err := pool.Exec(t.Context(), `ALTER TABLE events DISABLE TRIGGER USER;
		UPDATE events SET personal = NULL, salt = NULL, personal_digest = personal_digest(salt, personal)
		WHERE personal IS NOT NULL;
		ALTER TABLE events ENABLE TRIGGER USER`)
	if err != nil {
		t.Fatal(err)
	}
	appendEvents(t, pool, 300)
	startSealer(t, ledger.SealerConfig{Pool: pool})
	awaitSealed(t, pool)
	if diff := cmp.Diff(leaves, wantSound(t, pool)[:10]); diff != "" {
		t.Errorf("erasing has changed leaves (-before +after):\n%s", diff)
	}
}

// TestLedgerOnlyGrows: the database refuses rows that would fork the ledger.
func TestLedgerOnlyGrows(t *testing.T) {
	t.Parallel()
	pool := newSealedPool(t, 300)
	const restrictViolation = "23001"
	statements := []string{
		`UPDATE ledger_state SET tree_size = tree_size - 1`,
		`UPDATE ledger_state SET root_hash = sha256('x')`,
		`UPDATE ledger_state SET tree_size = tree_size + 1`,
		`DELETE FROM ledger_state`,
		`TRUNCATE ledger_state`,
		`SET session_replication_role = replica; DELETE FROM ledger_state`,
		`UPDATE ledger_tiles SET hashes = hashes`,
		`DELETE FROM ledger_tiles`,
		`TRUNCATE ledger_tiles`,
		`SET session_replication_role = replica; DELETE FROM ledger_tiles`,
		`UPDATE ledger_cosignatures SET signature = signature`, // see TestOldCosignaturesArePruned for DELETE
		`TRUNCATE ledger_cosignatures`,
	}
	for _, statement := range statements {
		_, err := pool.Exec(t.Context(), statement)
		var pgErr *pgconn.PgError
		if !errors.As(err, &pgErr) || pgErr.Code != restrictViolation {
			t.Errorf("%s: %v", statement, err)
		}
	}
	wantSound(t, pool)
}

// TestBundleOfAChangedLog: an entry bundle has one event of the log per leaf, or is not served.
func TestBundleOfAChangedLog(t *testing.T) {
	t.Parallel()
	pool := newSealedPool(t, 300)
	testdb.Exec(t, pool, `ALTER TABLE events DISABLE TRIGGER USER; DELETE FROM events WHERE log_index = 270`)
	store := ledger.NewStore(pool)
	for _, want := range []struct {
		n     int64
		width int
		err   error
	}{{0, 256, nil}, {1, 14, nil}, {1, 15, ledger.ErrDamaged}, {1, 44, ledger.ErrDamaged}, {1, 45, ledger.ErrNotFound}} {
		bundle, err := store.Tile(t.Context(), tlog.Tile{H: ledger.TileHeight, L: -1, N: want.n, W: want.width})
		if !errors.Is(err, want.err) {
			t.Errorf("%d entries of bundle %d: %v, want %v", want.width, want.n, err, want.err)
		}
		if _, err := ledger.SplitBundle(bundle, want.width); want.err == nil && err != nil {
			t.Errorf("%d entries of bundle %d: %v", want.width, want.n, err)
		}
	}
}

// TestEventsAreReadByIndex: entry bundles and exports read ranges through an index, also with plans from when log and
// ledger were empty, with the settings of readers and of the history.
func TestEventsAreReadByIndex(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	history := testdb.Must(database.OpenHistory(t.Context(), url))(t)
	defer history.Close()
	pools := testdb.Must(database.Open(t.Context(), url))(t)
	defer pools.Close()
	for name, pool := range map[string]*pgxpool.Pool{"history": history, "public": pools.Read} {
		rows := testdb.Must(pool.Query(t.Context(), "EXPLAIN "+ledger.EventsSQL, 256, 512))(t)
		lines := testdb.Must(pgx.CollectRows(rows, pgx.RowTo[string]))(t)
		if plan := strings.Join(lines, "\n"); !strings.Contains(plan, "Index Scan using events_pkey") ||
			strings.Contains(plan, "Sort") {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
}

// TestEventsOfAnotherLogAreNotSealed: events that were read and hashed, and then lost, are not sealed, although others
// have their log indexes.
func TestEventsOfAnotherLogAreNotSealed(t *testing.T) {
	t.Parallel()
	for _, sealed := range []int{0, 4} {
		pool := newSealedPool(t, sealed)
		appendEvents(t, pool, 3)
		var once sync.Once
		// first asked between reading and sealing
		stop := startSealer(t, ledger.SealerConfig{Pool: pool, Clock: func() time.Time {
			once.Do(func() {
				testdb.Lose(t, pool, fmt.Sprint(`log_index >= `, sealed))
				appendEvents(t, pool, 5)
			})
			return time.Now()
		}})
		testdb.Eventually(t, "what is in the log is sealed", func() bool { return treeSize(t, pool) == int64(sealed)+5 })
		stop()
		wantSound(t, pool)
	}
}

// TestSealingStops: the sealer does not build on a damaged tree or on that of another log, and seals nothing behind a
// gap. The status says why.
func TestSealingStops(t *testing.T) {
	t.Parallel()
	const events = 300
	for name, c := range map[string]struct{ change, says string }{
		"tiles without the root on record": {`ALTER TABLE ledger_tiles DISABLE TRIGGER ledger_append_only;
			UPDATE ledger_tiles SET hashes = sha256(hashes) WHERE level = 1`, "damaged"},
		"a gap": {`INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, actor, batch_id)
			VALUES (301, 'novel', gen_random_uuid(), 1, 'k', 's', 'novel.approved.v1', '{}', 'test', gen_random_uuid())`, eventlog.ErrGap.Error()},
		"the last event is lost":     {`DELETE FROM events WHERE log_index > 0`, ledger.ErrDiverged.Error()},
		"another event in its place": {`UPDATE events SET recorded_at = recorded_at + interval '1 microsecond'`, ledger.ErrDiverged.Error()},
		"with other words":           {`UPDATE events SET personal = '{}' WHERE personal IS NOT NULL`, ledger.ErrDiverged.Error()},
		"erased without its digest":  {`UPDATE events SET personal = NULL, salt = NULL`, ledger.ErrDiverged.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newSealedPool(t, events)
			testdb.Exec(t, pool, `ALTER TABLE events DISABLE TRIGGER USER; `+c.change)
			appendEvents(t, pool, 3)
			startSealer(t, ledger.SealerConfig{Pool: pool})
			testdb.Eventually(t, "the status says so", func() bool {
				status, err := ledger.ReadStatus(t.Context(), pool)
				return err == nil && status.Error != nil && strings.Contains(*status.Error, c.says)
			})
			if size := treeSize(t, pool); size != events {
				t.Errorf("%d entries, want the %d of before", size, events)
			}
		})
	}
}
