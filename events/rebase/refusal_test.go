package rebase_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"novelgate/events/rebase"
	"novelgate/internal/testdb"
)

// TestRefusals: each refusal leaves everything unchanged.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const second = `(SELECT transaction_id FROM ledger_seals WHERE first_log_index = 2)`
	for name, c := range map[string]struct {
		spoil   string // with the triggers switched off
		shifted bool
		want    error
		says    string
	}{
		"a log of this cluster": {`PERFORM 1`, false, rebase.ErrNotNeeded, ""},
		"an empty log":          {`DELETE FROM events; DELETE FROM ledger_seals`, true, rebase.ErrNotNeeded, ""},
		"a changed event": {
			`UPDATE events SET data = '{"x":1}' WHERE position = 1`, true, rebase.ErrLedger, "event",
		},
		"a changed tile": {
			`UPDATE ledger_tiles SET hashes = set_byte(hashes, 40, get_byte(hashes, 40) # 1)`, true, rebase.ErrLedger, "tile",
		},
		"another root": {`UPDATE ledger_state SET root_hash = sha256('')`, true, rebase.ErrLedger, "root"},
		"a checkpoint over another log": {
			`UPDATE ledger_checkpoints SET note = replace(note, encode(root_hash, 'base64'), encode(sha256('x'), 'base64'))`,
			true, rebase.ErrLedger, "signature",
		},
		"a deleted event": {
			`DELETE FROM events WHERE transaction_id = ` + second, true, rebase.ErrOrder, "1 transactions differ",
		},
		"an inserted event": {`INSERT INTO events (transaction_id, position, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, actor, batch_id)
			SELECT '3', 0, stream_type, gen_random_uuid(), 2, 'x', event_source, event_type, data, 'x', batch_id FROM events LIMIT 1`, true, rebase.ErrOrder, "transactions differ"},
		"a gap": {
			`UPDATE events SET position = 7 WHERE position = 2`, true, rebase.ErrOrder, "positions of 1 transactions have gaps",
		},
		"a lost seal": {
			`DELETE FROM ledger_seals WHERE first_log_index = 2`, true, rebase.ErrOrder, "1 transactions differ",
		},
		"a longer seal": {
			`UPDATE ledger_seals SET event_count = 9 WHERE first_log_index = 2`, true, rebase.ErrOrder, "1 transactions differ",
		},
		"an id of no cluster": {
			`UPDATE events SET transaction_id = '1' WHERE transaction_id = ` + second, true, rebase.ErrOrder, "no cluster",
		},
		"half a place": {
			`CREATE TABLE elsewhere (since_transaction_id xid8)`, true, rebase.ErrHalfPosition,
			"public.elsewhere.since_transaction_id",
		},
		"a place of two words": {
			`CREATE TABLE elsewhere (since xid8, position integer)`, true, rebase.ErrHalfPosition, "public.elsewhere.since",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newRestored(t)
			l.append(2)
			l.append(3)
			l.sign()
			l.Tamper(c.spoil)
			if c.shifted {
				l.shift(3)
			}
			before := l.digests()
			report, err := l.rebase(t.Context(), nil)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%+v, %v, want %v", report, err, c.want)
			}
			if diff := cmp.Diff(before, l.digests()); diff != "" {
				t.Errorf("(-before +after)\n%s", diff)
			}
		})
	}
}

// unusedSQL reports whether Novelgate has no session.
const unusedSQL = `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'novelgate%')`

// connect opens a session with an application name.
func (l *restored) connect(application string) *pgx.Conn {
	l.t.Helper()
	config := l.Pool.Config().ConnConfig.Copy()
	config.RuntimeParams["application_name"] = application
	conn, err := pgx.ConnectConfig(l.t.Context(), config)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// await repeats a query until it returns true.
func (l *restored) await(conn *pgx.Conn, sql string) {
	l.t.Helper()
	testdb.Eventually(l.t, sql, func() (yes bool) {
		if err := conn.QueryRow(l.t.Context(), sql).Scan(&yes); err != nil {
			l.t.Fatal(err)
		}
		return yes
	})
}

// TestInUse: a rebase is refused beside a replica, and beside a session that locks the log.
func TestInUse(t *testing.T) {
	t.Parallel()
	l := newRestored(t)
	l.append(2)
	l.sign()
	l.shift(3)
	refused := func(says string) {
		t.Helper()
		conn := l.connect("the rebase")
		defer conn.Close(context.Background()) //nolint:errcheck // it is no longer used
		_, err := rebase.Run(t.Context(), rebase.Config{Conn: conn, Now: time.Now, LockTimeout: 100 * time.Millisecond})
		if !errors.Is(err, rebase.ErrInUse) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want ErrInUse: %s", err, says)
		}
	}
	l.Pool.Reset()
	replica := l.connect("novelgate-listen")
	refused("novelgate-listen")
	if err := replica.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := l.connect("psql")
	l.await(other, unusedSQL) // a closed session remains for a moment
	testdb.Exec(t, other, `BEGIN; SELECT FROM events`)
	refused("lock timeout")
	if err := other.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.mustRebase()
}

// TestConnectedMeanwhile: a session that connects while the rebase waits for the log is detected.
func TestConnectedMeanwhile(t *testing.T) {
	t.Parallel()
	l := newRestored(t)
	l.append(2)
	l.sign()
	l.shift(3)
	l.Pool.Reset()
	holder := l.connect("psql")
	l.await(holder, unusedSQL)
	testdb.Exec(t, holder, `BEGIN; SELECT FROM events`)
	conn, ended := l.connect("the rebase"), make(chan error, 1)
	go func() {
		_, err := rebase.Run(context.Background(), rebase.Config{Conn: conn, Now: time.Now, LockTimeout: time.Minute})
		ended <- err
	}()
	l.await(holder, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'events'::regclass
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`)
	l.connect("novelgate-append")
	testdb.Exec(t, holder, `COMMIT`)
	if err := <-ended; !errors.Is(err, rebase.ErrInUse) || !strings.Contains(err.Error(), "novelgate-append") {
		t.Errorf("%v, want ErrInUse: novelgate-append", err)
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	if err := rebase.CheckSize(math.MaxInt32); err != nil {
		t.Error(err)
	}
	if err := rebase.CheckSize(math.MaxInt32 + 1); !errors.Is(err, rebase.ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
}

// TestInterrupted: an interrupted rebase changes nothing, and can be repeated.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{rebase.Verifying, rebase.Moving, rebase.VerifyingAgain} {
		for name, interrupt := range map[string]func(l *restored, cancel func()){
			"cancelled": func(_ *restored, cancel func()) { cancel() },
			"killed": func(l *restored, _ func()) {
				l.count(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
			},
		} {
			t.Run(name+" while "+phase, func(t *testing.T) {
				t.Parallel()
				l := newRestored(t)
				for range 5 {
					l.append(2)
				}
				kept := map[string][]byte{"before": l.sign().Note}
				l.append(1)
				l.shift(3)
				before := l.digests()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				interrupted := false
				_, err := l.rebase(ctx, func(now string, done, _ int64) {
					if now == phase && done > 0 && !interrupted {
						interrupted = true
						interrupt(l, cancel)
					}
				})
				if err == nil || !interrupted {
					t.Fatalf("interrupted: %v, %v", interrupted, err)
				}
				if diff := cmp.Diff(before, l.digests()); diff != "" {
					t.Errorf("(-before +after)\n%s", diff)
				}
				if l.isReadable() {
					t.Error("the log is readable already")
				}
				l.mustRebase()
				l.wantGrowing(kept, 11)
			})
		}
	}
}
