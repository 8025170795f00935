package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
)

// tryLock begins a transaction that has the lock of the log.
func tryLock(ctx context.Context, pool *pgxpool.Pool) (pgx.Tx, error) {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	var batch pgx.Batch
	held := eventlog.Lock(&batch)
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, errors.Join(err, tx.Rollback(ctx))
	}
	if !*held {
		return nil, errors.New("the lock is not held")
	}
	return tx, nil
}

// lockAndCount counts the events under the lock, each step in a statement of its own or all in one.
func lockAndCount(ctx context.Context, conn *pgx.Conn, oneStatement bool) (n int, err error) {
	if oneStatement {
		const sql = `WITH l AS MATERIALIZED (SELECT pg_advisory_xact_lock($1)) SELECT count(*) FROM events, (SELECT FROM l) AS held`
		return n, conn.QueryRow(ctx, sql, eventlog.LogLock).Scan(&n)
	}
	var batch pgx.Batch
	eventlog.Lock(&batch)
	batch.Queue(`SELECT count(*) FROM events`).QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
	return n, conn.SendBatch(ctx, &batch).Close()
}

// awaitWaiters returns when n sessions wait for the lock of the log.
func awaitWaiters(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	testdb.Eventually(t, fmt.Sprint(n, " sessions wait for the lock"), func() bool {
		return testdb.Value[int](t, pool, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == n
	})
}

// TestLaterStatementsSeeTheLog: a statement after the lock sees what the holder has appended. One statement that locks
// and reads does not, which is why there are several.
func TestLaterStatementsSeeTheLog(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	for i, c := range []struct {
		oneStatement bool
		want         int
	}{{false, 1}, {true, 1}} {
		tx := testdb.Must(tryLock(t.Context(), log.pool))(t)
		conn := testdb.Connect(t, log.pool.Config().ConnString())
		type result struct {
			n   int
			err error
		}
		counted := make(chan result, 1)
		go func() {
			n, err := lockAndCount(context.Background(), conn, c.oneStatement)
			counted <- result{n, err}
		}()
		awaitWaiters(t, log.pool, 1)
		testdb.NoError(t, appendOn(t.Context(), tx, approval(byte(i), 1)))
		testdb.NoError(t, tx.Commit(t.Context()))
		if got := <-counted; got.err != nil || got.n != c.want {
			t.Errorf("in one statement %t: %d events, %v; want %d", c.oneStatement, got.n, got.err, c.want)
		}
	}
}

// TestLimitsUnderTheLock: a wait that is too long fails like that for any other lock. Who has the lock waits for other
// locks for a moment only, and has limits for pauses and statements.
func TestLimitsUnderTheLock(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	tx := testdb.Must(tryLock(t.Context(), log.pool))(t)
	waiting := testdb.Begin(t, log.pool)
	testdb.Exec(t, waiting, `SET LOCAL lock_timeout = '10ms'`)
	var batch pgx.Batch
	held := eventlog.Lock(&batch)
	if err := waiting.SendBatch(t.Context(), &batch).Close(); !eventlog.IsLocked(err) || *held {
		t.Errorf("a wait of 10 ms ended with %v, %t", err, *held)
	}
	testdb.NoError(t, tx.Rollback(t.Context()))
	err := eventlog.Under(t.Context(), log.pool, func(tx pgx.Tx) error {
		got := testdb.Value[string](t, tx, `SELECT concat_ws(' ', current_setting('lock_timeout'),
			current_setting('idle_in_transaction_session_timeout'), current_setting('statement_timeout'))`)
		if got != "100ms 2s 5s" {
			t.Errorf("limits under the lock: %s", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSlowClientTriesAgain: a client that pauses under the lock for longer than the limit decides again.
func TestSlowClientTriesAgain(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	attempts := 0
	err := eventlog.Under(t.Context(), log.pool, func(tx pgx.Tx) error {
		if attempts++; attempts == 1 {
			testdb.Exec(t, tx, `SET LOCAL idle_in_transaction_session_timeout = '10ms'`)
			testdb.Eventually(t, "the server has ended the session", func() bool {
				return testdb.Value[int](t, log.pool, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
					AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == 0
			})
		}
		return appendOn(t.Context(), tx, approval(1, 1))
	})
	if err != nil || attempts != 2 {
		t.Errorf("%d attempts, %v", attempts, err)
	}
	if n := log.count(t, "events"); n != 1 {
		t.Errorf("%d events", n)
	}
}

func beginLocked(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	testdb.Exec(t, conn, `BEGIN`)
	testdb.Exec(t, conn, `SELECT pg_advisory_xact_lock($1)`, eventlog.LogLock)
}

// stoppedIn leaves a session that holds the lock and whose client has stopped.
var stoppedIn = map[string]func(t *testing.T, conn *pgx.Conn){
	"between round trips": beginLocked,
	"after an error": func(t *testing.T, conn *pgx.Conn) {
		t.Helper()
		beginLocked(t, conn)
		// A savepoint keeps the lock in the aborted transaction.
		testdb.Exec(t, conn, `SAVEPOINT s`)
		if _, err := conn.Exec(t.Context(), `SELECT 1/0`); err == nil {
			t.Fatal("no error")
		}
	},
	"inside a pipeline": func(t *testing.T, conn *pgx.Conn) {
		t.Helper()
		p := conn.PgConn().StartPipeline(context.Background())
		p.SendQueryParams(fmt.Sprintf(`SELECT pg_advisory_xact_lock(%d)`, eventlog.LogLock), nil, nil, nil, nil)
		p.SendFlushRequest()
		testdb.NoError(t, p.Flush())
	},
}

// TestBreakerEndsAStoppedHolder in each phase in which its client can stop, so that the next append waits for little
// longer than a second.
func TestBreakerEndsAStoppedHolder(t *testing.T) {
	t.Parallel()
	for phase, stop := range stoppedIn {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			log := setupLog(t)
			stop(t, testdb.Connect(t, log.pool.Config().ConnString()))
			testdb.NoError(t, eventlog.Under(t.Context(), log.pool, func(pgx.Tx) error { return nil }))
		})
	}
}

// TestBreakerOutlivesTheWait: the wait for the lock ends while the breaker is at work. The holder is ended
// nevertheless, so that the next wait succeeds.
func TestBreakerOutlivesTheWait(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	beginLocked(t, testdb.Connect(t, log.pool.Config().ConnString()))
	slow := &slowQuery{entered: make(chan struct{}), leave: make(chan struct{})}
	config := log.pool.Config()
	config.ConnConfig.Tracer = slow
	pool := testdb.Must(pgxpool.NewWithConfig(t.Context(), config))(t)
	t.Cleanup(pool.Close)
	stop := (&eventlog.Breaker{Pool: pool, Logger: slog.New(slog.DiscardHandler)}).Watch(t.Context())
	<-slow.entered
	stop()
	close(slow.leave)
	testdb.Eventually(t, "the lock is free", func() bool {
		return testdb.Value[int](t, log.pool, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == 0
	})
}

// slowQuery delays the query of a pool.
type slowQuery struct{ entered, leave chan struct{} }

func (s *slowQuery) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	close(s.entered)
	<-s.leave
	return ctx
}

func (*slowQuery) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestBreakerSparesHolders: it ends no session that executes, and none that has waited for its client for a moment
// only, however old its transaction is.
func TestBreakerSparesHolders(t *testing.T) {
	t.Parallel()
	log := setupLog(t)
	breaker := &eventlog.Breaker{Pool: log.pool, Logger: slog.New(slog.DiscardHandler)}
	wantSpared := func(what string) {
		t.Helper()
		if ended, err := breaker.Break(t.Context()); ended != 0 || err != nil {
			t.Errorf("%s: %d sessions were ended, %v", what, ended, err)
		}
	}
	wantSpared("nobody holds the lock")
	tx := testdb.Must(tryLock(t.Context(), log.pool))(t)
	wantSpared("a holder that has just begun")
	testdb.Exec(t, tx, `SELECT pg_sleep(1.1)`)
	wantSpared("a holder whose transaction is old")
	testdb.NoError(t, tx.Rollback(t.Context()))

	conn := testdb.Connect(t, log.pool.Config().ConnString())
	ctx, cancel := context.WithCancel(t.Context())
	var executing sync.WaitGroup
	executing.Go(func() {
		_, _ = conn.Exec(ctx, fmt.Sprintf(`SELECT pg_advisory_xact_lock(%d); SELECT pg_sleep(60)`, eventlog.LogLock))
	})
	defer executing.Wait()
	defer cancel()
	testdb.Eventually(t, "a holder executes for longer than a second", func() bool {
		return testdb.Value[bool](t, log.pool, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event = 'PgSleep' AND xact_start < clock_timestamp() - interval '1.1 s')`)
	})
	wantSpared("a holder that executes")
}

// TestBreakerSparesTheWaitForAStandby: to end it would publish a commit that the standby lacks.
func TestBreakerSparesTheWaitForAStandby(t *testing.T) {
	t.Parallel()
	testdb.SkipShort(t)
	pool := testdb.Pool(t, testdb.NewServer(t, nil))
	testdb.Exec(t, pool, `ALTER SYSTEM SET synchronous_standby_names = 'away'`)
	testdb.Exec(t, pool, `SELECT pg_reload_conf()`)
	testdb.Eventually(t, "commits wait for a standby", func() bool {
		return testdb.Value[string](t, pool, `SHOW synchronous_standby_names`) == "away"
	})
	ctx, cancel := context.WithCancel(t.Context())
	var committing sync.WaitGroup
	committing.Go(func() {
		for ctx.Err() == nil { // the first commits may come before the server waits for the standby
			_ = eventlog.Under(ctx, pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, `SELECT pg_logical_emit_message(true, '', '')`)
				return err
			})
		}
	})
	defer committing.Wait()
	defer cancel()
	testdb.Eventually(t, "a commit waits for longer than a second", func() bool {
		return testdb.Value[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE wait_event = 'SyncRep' AND xact_start < clock_timestamp() - interval '1.1 s')`)
	})
	breaker := &eventlog.Breaker{Pool: pool, Logger: slog.New(slog.DiscardHandler)}
	if ended, err := breaker.Break(t.Context()); ended != 0 || err != nil {
		t.Errorf("%d sessions were ended, %v", ended, err)
	}
}
