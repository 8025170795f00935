package rebase

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Reasons to refuse a rebase.
var (
	ErrNotNeeded = errors.New("the event log is in order as it is: this cluster has handed out every transaction id in it")
	ErrInUse     = errors.New("the event log is in use: stop every replica, and whatever else is connected")
	ErrLedger    = errors.New("the event log is not the one that the ledger has sealed")
	ErrOrder     = errors.New("the events of the log are not where the ledger has put them")
	ErrTooLarge  = errors.New("the event log has more events than there are positions")
)

// Phases of the work, as passed to Progress.
const (
	Verifying = "verifying"
	Moving    = "moving"
	Again     = "verifying again"
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
	// BatchEvents is the number of events that one statement moves. Default: 10,000.
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
// ErrNotNeeded, ErrInUse, ErrLedger, ErrOrder or ErrTooLarge. After any error except one of the commit, nothing has
// changed.
func Run(ctx context.Context, config Config) (*Report, error) {
	if config.LockTimeout <= 0 {
		config.LockTimeout = 10 * time.Second
	}
	if config.BatchEvents <= 0 {
		config.BatchEvents = 10_000
	}
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

// work is one run.
type work struct {
	Config
	tx     pgx.Tx
	report *Report
}

func (w *work) run(ctx context.Context) error {
	// First without a lock, so that a call on a log in use does not block it.
	if err := w.admit(ctx); err != nil {
		return err
	}
	if err := w.lock(ctx); err != nil {
		return err
	}
	if err := w.admit(ctx); err != nil {
		return err
	}
	// A restored database has no planner statistics yet.
	if err := w.exec(ctx, "analyze the log", analyzeSQL); err != nil {
		return err
	}
	if err := w.plan(ctx); err != nil {
		return err
	}
	var err error
	if w.report.RootBefore, err = w.verify(ctx, Verifying); err != nil {
		return err
	}
	if err := w.move(ctx); err != nil {
		return err
	}
	if err := w.exec(ctx, "analyze the log", analyzeSQL); err != nil {
		return err
	}
	if w.report.RootAfter, err = w.verify(ctx, Again); err != nil {
		return err
	}
	return w.exec(ctx, "drop the plan", `DROP TABLE log_rebase`)
}

const analyzeSQL = `ANALYZE events, ledger_seals, ledger_tiles`

func (w *work) exec(ctx context.Context, doing, sql string, args ...any) error {
	if _, err := w.tx.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}
