package database

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// minVersion is the oldest PostgreSQL that the service runs on.
const minVersion = 150000

// Reasons not to start on a database.
var (
	ErrTooOld     = errors.New("the database server is too old: PostgreSQL 15 or newer is needed")
	ErrNotDurable = errors.New("the database may lose acknowledged commands")
	ErrRestored   = errors.New("the event log carries transaction ids from the future: it was restored from a logical dump into another cluster; `novelgate events rebase` makes it readable here")
)

const serverSQL = `SELECT current_setting('server_version_num')::int, current_setting('fsync'),
       current_setting('synchronous_commit'), current_setting('full_page_writes')`

// A transaction id that this cluster has not handed out yet would stay invisible to readers, and appends would be
// ordered before it.
const restoredSQL = `SELECT coalesce((SELECT transaction_id FROM events ORDER BY transaction_id DESC, position DESC LIMIT 1)
       >= pg_snapshot_xmax(pg_current_snapshot()), false)`

// CheckServer refuses a server that is too old (ErrTooOld) or, unless allowUnsafe, one whose settings do not make a
// commit durable (ErrNotDurable). pool is the one that appends.
func CheckServer(ctx context.Context, pool *pgxpool.Pool, allowUnsafe bool) error {
	var version int
	var fsync, synchronousCommit, fullPageWrites string
	if err := pool.QueryRow(ctx, serverSQL).Scan(&version, &fsync, &synchronousCommit, &fullPageWrites); err != nil {
		return fmt.Errorf("read server settings: %w", err)
	}
	if version < minVersion {
		return fmt.Errorf("%w, this is %d.%d", ErrTooOld, version/10000, version%10000)
	}
	if allowUnsafe {
		return nil
	}
	for _, setting := range []struct{ name, value string }{
		{"fsync", fsync}, {"synchronous_commit", synchronousCommit}, {"full_page_writes", fullPageWrites},
	} {
		if setting.value == "off" {
			return fmt.Errorf("%w: %s is off (--allow-unsafe-durability starts all the same)", ErrNotDurable, setting.name)
		}
	}
	return nil
}

type rowQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// CheckLog refuses a migrated database whose events carry transaction ids from the future (ErrRestored).
func CheckLog(ctx context.Context, db rowQuerier) error {
	var restored bool
	if err := db.QueryRow(ctx, restoredSQL).Scan(&restored); err != nil {
		return fmt.Errorf("check the order of the log: %w", err)
	}
	if restored {
		return ErrRestored
	}
	return nil
}
