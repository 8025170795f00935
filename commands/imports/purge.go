package imports

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
)

// purgeBatch is the number of chunks that one transaction deletes.
const purgeBatch = 100

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
	// discardWaitingSQL deletes the waiting replies of such imports. $1: number of replies.
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

// purge deletes the lines and results of imports that ended longer ago than retention, and ends imports without any
// change in that time. Lines of cancelled imports that were never executed have no result, and are deleted at once.
func (s *Store) purge(ctx context.Context, retention time.Duration) error {
	if _, err := s.Pool.Exec(ctx, abandonSQL, retention); err != nil {
		return fmt.Errorf("end abandoned imports: %w", err)
	}
	for _, some := range []struct {
		sql   string
		batch int
	}{{discardWaitingSQL, purgeBatch * chunkLines / 10}, {discardSQL, purgeBatch}} {
		for deleted := true; deleted; {
			tag, err := s.Pool.Exec(ctx, some.sql, some.batch)
			if err != nil {
				return fmt.Errorf("delete lines of cancelled imports: %w", err)
			}
			deleted = tag.RowsAffected() > 0
		}
	}
	ended, err := database.Collect(ctx, s.Pool, "old imports", pgx.RowTo[uuid.UUID], endedSQL, retention)
	if err != nil {
		return err
	}
	for _, id := range ended {
		for _, some := range []struct {
			sql   string
			batch int
		}{{purgeWaitingSQL, purgeBatch * chunkLines / 10}, {purgeChunksSQL, purgeBatch}} {
			for deleted := some.batch; deleted == some.batch; {
				tag, err := s.Pool.Exec(ctx, some.sql, id, some.batch)
				if err != nil {
					return fmt.Errorf("delete lines: %w", err)
				}
				deleted = int(tag.RowsAffected())
			}
		}
		for _, sql := range []string{purgePartsSQL, purgedSQL} {
			if _, err := s.Pool.Exec(ctx, sql, id); err != nil {
				return fmt.Errorf("delete parts: %w", err)
			}
		}
	}
	return nil
}
