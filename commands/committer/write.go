package committer

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/projections"
)

// writes returns the statements that append what was decided and let the inline projections follow, nil when nothing is
// to be written. The append is the first. What was decided without reading is checked at the end: tables are locked in
// the order in which all others lock them, who exchanges those of the inline projections included.
func (st *state) writes(ctx context.Context, jobs []*job) (*pgx.Batch, error) {
	if len(st.decided) == 0 {
		return nil, nil //nolint:nilnil // said above
	}
	batch := &pgx.Batch{}
	var err error
	if st.bytes, err = eventlog.QueueMeasured(batch, st.decided); err != nil {
		return nil, err
	}
	if err := projections.QueueInline(ctx, batch, st.decided); err != nil {
		return nil, err
	}
	if st.unread {
		queueNews(batch, st, jobs)
	}
	return batch, nil
}

// send carries out the statements in one round trip. On a connection the batch is the transaction, inside an
// explicit one the caller commits.
func send(ctx context.Context, q database.DB, batch *pgx.Batch) error {
	if err := q.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("append batch: %w", err)
	}
	return nil
}
