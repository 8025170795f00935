package database

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The database of an installation knows whether it is a sandbox. The first serve decides that, for good: otherwise a
// forgotten --sandbox would publish trials, and a wrong --database-url would wipe a catalogue.
var (
	ErrIsSandbox  = errors.New("the database is that of a sandbox: serve it with --sandbox")
	ErrNotSandbox = errors.New("the database is not that of a sandbox: serve --sandbox needs an empty database of its own")
	ErrWipeReal   = errors.New("this is not the database of a sandbox: only a database that began with serve --sandbox " +
		"can be wiped")
	ErrWipeInUse = errors.New("the sandbox is in use: stop its services first")
)

// claimSQL does nothing on a database that was served before. A log that has begun without a service is no sandbox's:
// its keys are those of a real installation.
const claimSQL = `INSERT INTO settings (name, value)
SELECT 'sandbox', CASE WHEN $1 AND NOT EXISTS (SELECT FROM events) THEN 'true' ELSE 'false' END ON CONFLICT (name) DO NOTHING`

// Claim marks a new database as that of a sandbox or of a real installation. It fails as CheckSandbox does if it is
// marked as the other one.
func Claim(ctx context.Context, db DB, sandbox bool) error {
	if _, err := db.Exec(ctx, claimSQL, sandbox); err != nil {
		return fmt.Errorf("mark the database: %w", err)
	}
	return CheckSandbox(ctx, db, sandbox)
}

// CheckSandbox fails with ErrIsSandbox or ErrNotSandbox unless the database is that of a sandbox exactly if sandbox.
func CheckSandbox(ctx context.Context, db Querier, sandbox bool) error {
	marked, err := IsSandbox(ctx, db)
	switch {
	case err != nil || marked == sandbox:
		return err
	case marked:
		return ErrIsSandbox
	default:
		return ErrNotSandbox
	}
}

// IsSandbox reports whether the database is that of a sandbox.
func IsSandbox(ctx context.Context, db Querier) (marked bool, err error) {
	err = db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM settings WHERE name = 'sandbox' AND value = 'true')`).Scan(&marked)
	if err != nil {
		return false, fmt.Errorf("read whether this is a sandbox: %w", err)
	}
	return marked, nil
}

//go:embed sandbox.sql
var wipeSQL string

// WipeSandbox empties the database of a sandbox in one transaction. Integrations, staff users and auditors stay, with
// their keys; their events are the new log. It fails with ErrWipeReal and ErrWipeInUse.
func WipeSandbox(ctx context.Context, pool *pgxpool.Pool) error {
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, wipeSQL)
		return err
	})
	refused, _ := errors.AsType[*pgconn.PgError](err)
	switch {
	case err == nil:
		return nil
	case refused != nil && refused.Code == "NG002":
		return ErrWipeReal
	case refused != nil && refused.Code == "NG003":
		return ErrWipeInUse
	}
	return fmt.Errorf("wipe the sandbox: %w", err)
}
