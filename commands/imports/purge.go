package imports

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
)

// Numbers of chunks and of waiting replies that one transaction deletes.
const (
	chunkBatch   = 100
	waitingBatch = 10_000
)

const (
	abandonSQL = `UPDATE imports SET state = 'failed', ended_at = now()
WHERE state IN ('open', 'processing') AND changed_at < now() - $1::interval`
	endedSQL = `SELECT import_id FROM imports
WHERE ended_at < now() - $1::interval AND purged_at IS NULL ORDER BY ended_at LIMIT 100`
	purgeChunksSQL = `DELETE FROM import_chunks WHERE import_id = $1 AND first_line IN (
    SELECT first_line FROM import_chunks WHERE import_id = $1 ORDER BY first_line LIMIT $2)`
	purgeWaitingSQL = `DELETE FROM import_waiting WHERE import_id = $1 AND (first_line, line) IN (
    SELECT first_line, line FROM import_waiting WHERE import_id = $1 ORDER BY first_line, line LIMIT $2)`
	purgePartsSQL = `DELETE FROM import_parts WHERE import_id = $1`
	purgedSQL     = `UPDATE imports SET purged_at = now() WHERE import_id = $1`
	// mayBePurgedSQL compares as endedSQL does, by the same clock.
	mayBePurgedSQL = `SELECT coalesce(purged_at IS NOT NULL OR ended_at < now() - $2::interval, false) FROM imports
WHERE import_id = $1`
	// discardWaitingSQL deletes the waiting replies of imports that have ended. $1: number of replies.
	discardWaitingSQL = `DELETE FROM import_waiting WHERE (import_id, first_line, line) IN (
    SELECT w.import_id, w.first_line, w.line FROM imports AS i JOIN import_waiting AS w USING (import_id)
    WHERE i.ended_at IS NOT NULL AND i.purged_at IS NULL LIMIT $1)`
	// discardSQL deletes chunks without any outcome of imports that were cancelled or abandoned. $1: number of chunks.
	discardSQL = `WITH gone AS (
    DELETE FROM import_chunks AS d WHERE (d.import_id, d.first_line) IN (
        SELECT c.import_id, c.first_line FROM imports AS i JOIN import_chunks AS c USING (import_id)
        WHERE i.ended_at IS NOT NULL AND i.purged_at IS NULL AND c.unsettled > 0 AND c.unsettled = c.lines
          AND (c.holder IS NULL OR c.leased_until < now()) LIMIT $1 FOR UPDATE OF c SKIP LOCKED)
    RETURNING d.import_id, octet_length(d.body) AS size
)
UPDATE imports AS i SET spooled = i.spooled - g.size
FROM (SELECT import_id, sum(size) AS size FROM gone GROUP BY import_id) AS g WHERE i.import_id = g.import_id`
)

// purge ends imports without any change for the retention, and deletes the lines and results of those that ended longer
// ago. It deletes chunks without any outcome of cancelled and abandoned imports at once.
func (s *Store) purge(ctx context.Context) error {
	if _, err := s.Pool.Exec(ctx, abandonSQL, s.Retention); err != nil {
		return fmt.Errorf("end abandoned imports: %w", err)
	}
	if err := s.repeat(ctx, discardWaitingSQL, waitingBatch); err != nil {
		return err
	}
	if err := s.repeat(ctx, discardSQL, chunkBatch); err != nil {
		return err
	}
	ended, err := database.Collect(ctx, s.Pool, "old imports", pgx.RowTo[uuid.UUID], endedSQL, s.Retention)
	if err != nil {
		return err
	}
	for _, id := range ended {
		// A visit that ended late may have added replies after those of the ended import were deleted.
		if err := s.repeat(ctx, purgeWaitingSQL, id, waitingBatch); err != nil {
			return err
		}
		if err := s.repeat(ctx, purgeChunksSQL, id, chunkBatch); err != nil {
			return err
		}
		for _, sql := range []string{purgePartsSQL, purgedSQL} {
			if _, err := s.Pool.Exec(ctx, sql, id); err != nil {
				return fmt.Errorf("purge import %s: %w", id, err)
			}
		}
	}
	return nil
}

// mayBePurged reports whether a purge may have deleted lines and results of an import.
func (s *Store) mayBePurged(ctx context.Context, id uuid.UUID) (purged bool, err error) {
	if err := s.Pool.QueryRow(ctx, mayBePurgedSQL, id, s.Retention).Scan(&purged); err != nil {
		return false, fmt.Errorf("look for a purge: %w", err)
	}
	return purged, nil
}

// repeat executes a statement that deletes a batch, until it affects no row.
func (s *Store) repeat(ctx context.Context, sql string, args ...any) error {
	for {
		tag, err := s.Pool.Exec(ctx, sql, args...)
		if err != nil {
			return fmt.Errorf("delete lines: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
	}
}
