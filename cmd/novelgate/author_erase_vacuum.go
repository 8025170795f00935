package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"novelgate/commands/staff"
)

// applyPatience is how long --vacuum waits for the projections.
const applyPatience = 30 * time.Second

// vacuumSQL also cleans indexes from which little has gone, one of which holds identifiers, and takes new samples for
// the planner's statistics. Last come the statistics themselves, of which the old ones have to go, too; a role that may
// not do that is warned and goes on.
const vacuumSQL = `VACUUM (INDEX_CLEANUP ON, ANALYZE) events, posts, authors, author_decisions, daily_authors, pg_catalog.pg_statistic`

// vacuumErased frees what files and statistics hold of an author who is erased. Before the tables have lost it there
// would be nothing to free.
func vacuumErased(ctx context.Context, s *staff.Staff, authorID uuid.UUID) error {
	waiting, cancel := context.WithTimeout(ctx, applyPatience)
	defer cancel()
	err := s.AwaitErased(waiting, authorID)
	var behind *staff.NotAppliedError
	if errors.As(err, &behind) {
		return fmt.Errorf("the author is erased, but the files were not freed, because these projections have not applied "+
			"it yet: %s. "+
			"Repeat the command with --vacuum once `novelgate projection list` shows them up to date",
			strings.Join(behind.Projections, ", "))
	}
	if err == nil {
		_, err = s.Pool.Exec(ctx, vacuumSQL)
	}
	if err != nil {
		return fmt.Errorf("the author is erased, but the files were not freed: %w", err)
	}
	return nil
}
