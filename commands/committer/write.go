package committer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/events/eventlog"
	"novelgate/projections"
)

// write appends what was decided and lets the inline projections follow, in one transaction and one round trip:
// on a connection the batch is the transaction, inside an explicit one the caller commits.
func (r *run) write(ctx context.Context, q querier, st *state) (phase, error) {
	if len(st.decided) == 0 {
		return reading, nil
	}
	batch := &pgx.Batch{}
	if err := errors.Join(eventlog.Queue(batch, st.decided), projections.QueueInline(ctx, batch, st.decided)); err != nil { //nolint:contextcheck // queueing waits for nothing
		return reading, err
	}
	start := time.Now() //nolint:forbidigo // a duration for a metric
	if err := q.SendBatch(ctx, batch).Close(); err != nil {
		return writing, fmt.Errorf("append batch: %w", err)
	}
	r.config.Metrics.commitSeconds.Observe(time.Since(start).Seconds())
	if _, explicit := q.(pgx.Tx); !explicit {
		r.config.Committed()
	}
	return writing, nil
}
