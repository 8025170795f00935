package imports

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
)

// turnsPerRound separates the rounds. The turn of a chunk (import_chunks.turn) is the sort key of its next visit: the
// number of the round times turnsPerRound, plus the place of the chunk in the round. The place is a number of lines,
// and an import has fewer lines than turnsPerRound. SQL statements write it as 1099511627776.
const turnsPerRound = 1 << 40

// nextTurn is the turn of the chunk in the next round. Odd rounds visit the chunks from last to first, because the
// parent of a waiting line mostly comes after it.
func (v *visit) nextTurn() int64 {
	next := v.round + 1
	if next%2 == 1 {
		return next*turnsPerRound + turnsPerRound - 1 - v.linesBefore
	}
	return next*turnsPerRound + v.linesBefore
}

//go:embed advance.sql
var advanceSQL string

// stuckSQL finds the imports whose final round has visited all chunks without progress. The column unsettled counts the
// lines of a chunk without an outcome. 1099511627776 is 2^40, see turnsPerRound.
const stuckSQL = `SELECT import_id FROM imports AS i
WHERE state = 'processing' AND final AND progress = 0
  AND EXISTS (SELECT FROM import_chunks AS c WHERE c.import_id = i.import_id AND c.unsettled > 0)
  AND NOT EXISTS (SELECT FROM import_chunks AS c WHERE c.import_id = i.import_id AND c.unsettled > 0
      AND c.turn < (i.round + 1) * 1099511627776)`

// advance begins the next rounds of imports, and ends imports that are done. It returns false when there was nothing to
// do.
func (s *Store) advance(ctx context.Context) (bool, error) {
	advanced, err := s.Pool.Exec(ctx, advanceSQL)
	if err != nil {
		return false, fmt.Errorf("advance imports: %w", err)
	}
	stuck, err := database.Collect(ctx, s.Pool, "cycles of replies", pgx.RowTo[uuid.UUID], stuckSQL)
	if err != nil {
		return false, err
	}
	for _, id := range stuck {
		if err := s.breakCycle(ctx, id); err != nil {
			return false, err
		}
	}
	return advanced.RowsAffected() > 0 || len(stuck) > 0, nil
}

const (
	// ancestorsSQL follows the parents of the first waiting line of an import until a line repeats. UNION, unlike UNION
	// ALL, then stops. Of several lines with the same key it follows the first.
	ancestorsSQL = `WITH RECURSIVE up AS (
    (SELECT line, post_id, parent_post_id FROM import_waiting WHERE import_id = $1 ORDER BY first_line, line LIMIT 1)
    UNION
    SELECT w.line, w.post_id, w.parent_post_id FROM up CROSS JOIN LATERAL (
        SELECT line, post_id, parent_post_id FROM import_waiting
        WHERE import_id = $1 AND post_id = up.parent_post_id ORDER BY line LIMIT 1
    ) AS w
)
SELECT line, post_id, parent_post_id FROM up`
	// freeSQL makes the line $2 of an import ready, and counts this as progress, so that another round begins. If $2 is
	// NULL, it only counts progress.
	freeSQL = `WITH w AS (UPDATE import_waiting SET parent_post_id = NULL WHERE import_id = $1 AND line = $2)
UPDATE imports SET progress = 1 WHERE import_id = $1`
)

// breakCycle makes the first line of a cycle of replies ready, so that it is stored top-level. See Replies in doc.go.
func (s *Store) breakCycle(ctx context.Context, id uuid.UUID) error {
	type reply struct {
		Line   int64
		Post   uuid.UUID
		Parent uuid.NullUUID
	}
	up, err := database.Collect(ctx, s.Pool, "a cycle of replies", pgx.RowToStructByPos[reply], ancestorsSQL, id)
	if err != nil {
		return err
	}
	var free *int64
	// The last ancestor is a reply to the comment at which the walk entered the cycle. If there is no such comment,
	// another worker has broken the cycle, and its replies are ready.
	begin := slices.IndexFunc(up, func(r reply) bool { return r.Post == up[len(up)-1].Parent.UUID })
	if begin >= 0 {
		first := slices.MinFunc(up[begin:], func(a, b reply) int { return cmp.Compare(a.Line, b.Line) })
		free = &first.Line
	}
	if _, err := s.Pool.Exec(ctx, freeSQL, id, free); err != nil {
		return fmt.Errorf("break a cycle of replies: %w", err)
	}
	return nil
}
