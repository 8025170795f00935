// Package rebase makes an event log readable that was restored from a logical dump into another PostgreSQL cluster.
//
// # Why
//
// The log is ordered by transaction ids, which belong to one cluster. A new cluster starts at small numbers, so
// restored events would stay invisible to readers, and new events would be ordered before them.
//
// # How
//
// All events move into the transaction id events.Frozen, at positions 0, 1, 2, … in the order that they had. PostgreSQL
// reserves that id in every cluster and never assigns it. It is older than every other id, so these events are settled
// at once and all new events come after them. For a sealed event the new position is its log index. In a second move,
// events that moved before keep their positions.
//
// All references to positions are translated too: every pair of columns …transaction_id (xid8) and …position (integer)
// of every table in the database. Of the ledger only ledger_seals and ledger_state change. Entries, tiles and
// checkpoints stay the same, because a leaf contains neither transaction id nor position.
//
// # Failure
//
// A rebase is one transaction under an exclusive lock on the log. Before and after the move, it hashes the whole tree
// from the stored events and compares it with the ledger; a difference aborts the transaction. Any failure before the
// commit leaves the database unchanged.
package rebase

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/events/eventlog"
	"novelgate/internal/database"
)

// Reasons to refuse a rebase.
var (
	ErrNotNeeded = errors.New("the event log needs no rebase: this cluster has assigned every transaction id in it")
	ErrInUse     = errors.New("the event log is in use: stop every replica and every other program that is connected")
	ErrLedger    = errors.New("the event log is not the one that the ledger has sealed")
	ErrOrder     = errors.New("the events of the log are not in the order that the ledger has sealed")
	ErrTooLarge  = errors.New("the event log has more events than one transaction id has positions")
)

// Phases of the work, as passed to Progress.
const (
	Verifying      = "verifying"
	Moving         = "moving"
	VerifyingAgain = "verifying again"
)

// Config configures a rebase.
type Config struct {
	// Conn is a connection of the owner of the tables, with the settings of database.OpenHistory. Required.
	Conn *pgx.Conn
	// Now is the clock. Required.
	Now func() time.Time
	// Progress is called as the work proceeds. Default: none.
	Progress func(phase string, done, total int64)
	// LockTimeout is how long to wait for the lock on the log. Default: 10 s, enough for autovacuum to give up its lock.
	LockTimeout time.Duration
	// BatchEvents is the approximate number of events that one statement moves. Default: 10,000.
	BatchEvents int
}

// Report is the result of a rebase.
type Report struct {
	Events int64 `json:"events"` // in the log
	Moved  int64 `json:"moved"`  // events with a new position
	Sealed int64 `json:"sealed"` // events in the ledger
	// root of the ledger, hashed from the events, base64; empty without sealed events
	RootBefore string  `json:"rootBefore"`
	RootAfter  string  `json:"rootAfter"`
	Seconds    float64 `json:"seconds"`
}

// Run moves all events of the log to events.Frozen and translates all references to positions. It fails with
// ErrNotNeeded, ErrInUse, ErrLedger, ErrOrder, ErrTooLarge, ErrLost or ErrHalfPosition. After any error except one of
// the commit, nothing has changed.
func Run(ctx context.Context, config Config) (*Report, error) {
	config.LockTimeout = cmp.Or(config.LockTimeout, 10*time.Second)
	config.BatchEvents = cmp.Or(config.BatchEvents, 10_000)
	if config.Progress == nil {
		config.Progress = func(string, int64, int64) {}
	}
	begun := config.Now()
	report := &Report{}
	err := pgx.BeginFunc(ctx, config.Conn, func(tx pgx.Tx) error {
		return (&work{Config: config, tx: tx, report: report}).run(ctx)
	})
	if err != nil {
		return nil, fmt.Errorf("rebase the event log: %w", err)
	}
	report.Seconds = config.Now().Sub(begun).Seconds()
	return report, nil
}

// work is the state of one Run.
type work struct {
	Config
	tx     pgx.Tx
	report *Report
}

func (w *work) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		w.precheck, // first without a lock, so that a call on a log in use does not block it
		w.lock,
		w.precheck,
		w.analyze, // a restored database has no planner statistics yet
		w.plan,
		func(ctx context.Context) (err error) { w.report.RootBefore, err = w.verify(ctx, Verifying); return err },
		w.move,
		w.analyze,
		func(ctx context.Context) (err error) {
			w.report.RootAfter, err = w.verify(ctx, VerifyingAgain)
			return err
		},
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return w.exec(ctx, "drop the plan", `DROP TABLE log_rebase`)
}

func (w *work) analyze(ctx context.Context) error {
	return w.exec(ctx, "analyze the log", `ANALYZE events, ledger_seals, ledger_tiles`)
}

func (w *work) exec(ctx context.Context, doing, sql string, args ...any) error {
	if _, err := w.tx.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

const (
	lockTimeoutSQL = `SELECT set_config('lock_timeout', $1, true)`
	lockSQL        = `LOCK TABLE events, ledger_seals, ledger_state, projections IN ACCESS EXCLUSIVE MODE`

	// refreshSQL makes PostgreSQL refresh pg_stat_activity, which is cached within a transaction.
	refreshSQL = `SELECT pg_stat_clear_snapshot()`

	// connectionsSQL finds other connections of Novelgate, idle or active.
	connectionsSQL = `SELECT coalesce(string_agg(DISTINCT application_name, ', '), '') FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE 'novelgate%'`
)

// precheck refuses a log that needs no rebase or is in use.
func (w *work) precheck(ctx context.Context) error {
	err := database.CheckLog(ctx, w.tx)
	if err == nil {
		return ErrNotNeeded
	}
	if !errors.Is(err, database.ErrRestored) {
		return err
	}
	if err := w.exec(ctx, "refresh the list of connections", refreshSQL); err != nil {
		return err
	}
	var users string
	if err := w.tx.QueryRow(ctx, connectionsSQL).Scan(&users); err != nil {
		return fmt.Errorf("list connections: %w", err)
	}
	if users != "" {
		return fmt.Errorf("%w: %s", ErrInUse, users)
	}
	return nil
}

// lock locks the log exclusively until the transaction ends. A replica that starts meanwhile waits in its check for a
// restored log, before it reads any event.
func (w *work) lock(ctx context.Context) error {
	timeout := fmt.Sprintf("%dms", w.LockTimeout.Milliseconds())
	if err := w.exec(ctx, "set lock_timeout", lockTimeoutSQL, timeout); err != nil {
		return err
	}
	err := w.exec(ctx, "lock the log", lockSQL)
	if eventlog.IsLocked(err) {
		return fmt.Errorf("%w: %w", ErrInUse, err)
	}
	return err
}

//go:embed plan.sql
var planSQL string

//go:embed check.sql
var checkSQL string

// plan computes the new positions of every transaction. It refuses a log whose order differs from the ledger.
func (w *work) plan(ctx context.Context) error {
	if err := w.exec(ctx, "plan", planSQL); err != nil {
		return err
	}
	var gaps, older, misplaced int64
	r := w.report
	if err := w.tx.QueryRow(ctx, checkSQL).Scan(&r.Events, &r.Moved, &r.Sealed, &gaps, &older, &misplaced); err != nil {
		return fmt.Errorf("check the plan: %w", err)
	}
	switch {
	case gaps > 0:
		return fmt.Errorf("%w: the positions of %d transactions have gaps", ErrOrder, gaps)
	case older > 0:
		return fmt.Errorf("%w: %d transactions have ids that no cluster assigns", ErrOrder, older)
	case misplaced > 0:
		return fmt.Errorf("%w: %d transactions differ from the seals of the ledger",
			ErrOrder, misplaced)
	}
	return checkSize(r.Events)
}

// checkSize refuses more events than there are positions.
func checkSize(events int64) error {
	if events > math.MaxInt32 { // the last position is one less
		return fmt.Errorf("%w: %d", ErrTooLarge, events)
	}
	return nil
}
