package rebase

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5/pgconn"

	"novelgate/internal/database"
)

//go:embed plan.sql
var planSQL string

//go:embed check.sql
var checkSQL string

const (
	lockTimeoutSQL = `SELECT set_config('lock_timeout', $1, true)`
	lockSQL        = `LOCK TABLE events, ledger_seals, ledger_state, projections IN ACCESS EXCLUSIVE MODE`

	// forgetSQL makes PostgreSQL refresh pg_stat_activity, which is cached within a transaction.
	forgetSQL = `SELECT pg_stat_clear_snapshot()`

	// usersSQL finds other connections of Novelgate, idle or active.
	usersSQL = `SELECT coalesce(string_agg(DISTINCT application_name, ', '), '') FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE 'novelgate%'`
)

// lockNotAvailable is the SQLSTATE of a lock that was not granted in time.
const lockNotAvailable = "55P03"

// admit refuses a log that needs no rebase, and one in use.
func (w *work) admit(ctx context.Context) error {
	err := database.CheckLog(ctx, w.tx)
	if err == nil {
		return ErrNotNeeded
	}
	if !errors.Is(err, database.ErrRestored) {
		return err //nolint:wrapcheck // its text is sufficient
	}
	if err := w.exec(ctx, "refresh the list of connections", forgetSQL); err != nil {
		return err
	}
	var users string
	if err := w.tx.QueryRow(ctx, usersSQL).Scan(&users); err != nil {
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
	if err := w.exec(ctx, "set lock_timeout", lockTimeoutSQL,
		fmt.Sprintf("%dms", w.LockTimeout.Milliseconds())); err != nil {
		return err
	}
	err := w.exec(ctx, "lock the log", lockSQL)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == lockNotAvailable {
		return fmt.Errorf("%w: %w", ErrInUse, err)
	}
	return err
}

// findings are the counts of check.sql.
type findings struct {
	events, moving, sealed int64
	gaps                   int64 // transactions whose positions are not 0, 1, 2, …
	older                  int64 // transactions before Frozen
	misplaced              int64 // transactions at another log index in the ledger, or missing in log or ledger
}

// plan computes the new positions of every transaction. It refuses a log whose order differs from the ledger.
func (w *work) plan(ctx context.Context) error {
	if err := w.exec(ctx, "plan", planSQL); err != nil {
		return err
	}
	var f findings
	if err := w.tx.QueryRow(ctx, checkSQL).Scan(&f.events, &f.moving, &f.sealed, &f.gaps, &f.older,
		&f.misplaced); err != nil {
		return fmt.Errorf("check the plan: %w", err)
	}
	w.report.Events, w.report.Moved, w.report.Sealed = f.events, f.moving, f.sealed
	return f.refusal()
}

func (f findings) refusal() error {
	switch {
	case f.events > math.MaxInt32: // the last position is one less
		return fmt.Errorf("%w: %d", ErrTooLarge, f.events)
	case f.gaps > 0:
		return fmt.Errorf("%w: the positions of %d transactions have gaps", ErrOrder, f.gaps)
	case f.older > 0:
		return fmt.Errorf("%w: %d transactions have ids that no cluster gives", ErrOrder, f.older)
	case f.misplaced > 0:
		return fmt.Errorf("%w: %d transactions differ", ErrOrder, f.misplaced)
	}
	return nil
}
