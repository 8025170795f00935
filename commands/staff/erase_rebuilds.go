package staff

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"novelgate/projections"
)

const unfinishedSQL = `SELECT name FROM projection_rebuilds WHERE phase <> 'finished' AND name = ANY ($1) ORDER BY name`

// UnfinishedRebuilds returns the projections with data of authors that have an unfinished rebuild. The rebuilt tables
// keep erased authors until the rebuild continues and applies the erasure, or is discarded.
func (s *Staff) UnfinishedRebuilds(ctx context.Context) ([]string, error) {
	names := append(followsAuthors(), projections.AuthorDecisions{}.Name())
	rows, err := s.Pool.Query(ctx, unfinishedSQL, names)
	if err != nil {
		return nil, fmt.Errorf("look for unfinished rebuilds: %w", err)
	}
	unfinished, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for unfinished rebuilds: %w", err)
	}
	return unfinished, nil
}
