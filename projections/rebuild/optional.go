package rebuild

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/eventlog"
	"novelgate/projections"
)

// switchOnSQL creates the checkpoint of an optional projection at the end of the log. Its generation makes the table of
// $1 due for a rebuild, and keeps followers from writing it before.
const switchOnSQL = `INSERT INTO projections (name, generation, position, state, updated_at)
VALUES ($1, $2, $3, 'running', statement_timestamp()) ON CONFLICT (name) DO NOTHING`

// SwitchOn makes all replicas keep an optional projection: they rebuild it (see Upgrade), then it follows the log. Once
// it is on, nothing changes.
func SwitchOn(ctx context.Context, pool *pgxpool.Pool, projection projections.Projection) error {
	end, err := eventlog.End(ctx, pool)
	if err != nil {
		return err
	}
	if _, err = pool.Exec(ctx, switchOnSQL, projection.Name(), projections.NeverBuilt, end.Position); err != nil {
		return fmt.Errorf("switch on projection %s: %w", projection.Name(), err)
	}
	return nil
}

// SwitchOff ends an optional projection for all replicas, and deletes its rows and an unfinished rebuild: nothing would
// erase what is in them. It waits for a batch that is being applied. Later batches find no checkpoint, and are dropped.
func SwitchOff(ctx context.Context, pool *pgxpool.Pool, projection projections.Projection) error {
	name := projection.Name()
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, discardLockTimeoutSQL); err != nil {
			return fmt.Errorf("set lock_timeout: %w", err)
		}
		deleted, err := tx.Exec(ctx, `DELETE FROM projections WHERE name = $1`, name)
		if err != nil || deleted.RowsAffected() == 0 {
			return err
		}
		var build int
		err = tx.QueryRow(ctx, `DELETE FROM projection_rebuilds WHERE name = $1 RETURNING build`, name).Scan(&build)
		if err == nil {
			err = dropSchema(ctx, tx, fmt.Sprint(name, "_", build))
		}
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		_, err = tx.Exec(ctx, `TRUNCATE `+strings.Join(projection.Tables(), ", "))
		return err
	})
	if err != nil {
		return fmt.Errorf("switch off projection %s: %w", name, err)
	}
	return nil
}
