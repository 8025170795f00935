package eventlog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
)

// copyColumns are the columns that CopyRows writes.
var copyColumns = []string{
	"position", "stream_type", "stream_id", "stream_version", "event_id", "integration_id", "event_source", "event_type",
	"data", "personal", "salt", "recorded_at", "batch_id", "key_id", "fingerprint", "request_id", "actor", "correlation",
	"causation", "traceparent", "personal_digest",
}

// CopyRows appends events of another log as they are stored there: the same bytes and times. Only their positions are
// new: the id of the transaction, with ordinals 0, 1, 2, … in the order given. So the transaction must append nothing
// else.
func CopyRows(ctx context.Context, tx pgx.Tx, rows []Row) error {
	copied, err := tx.CopyFrom(ctx, pgx.Identifier{"events"}, copyColumns,
		pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) {
			r, m := &rows[i], &rows[i].Metadata
			integration, path := events.SplitSource(r.Source)
			return []any{
				i, r.StreamType, r.StreamID, r.StreamVersion, r.ID,
				pgtype.UUID{Bytes: integration.UUID, Valid: integration.Valid},
				path, r.Type, r.Data, r.Personal,
				pgtype.UUID{Bytes: r.Salt.UUID, Valid: r.Salt.Valid},
				r.RecordedAt, m.Batch, nullable(m.KeyID), nullable(m.Fingerprint), text(m.RequestID),
				text(storedActor(m.Actor, integration)), text(m.Correlation), text(m.Causation), text(m.TraceParent),
				r.PersonalDigest,
			}, nil
		}))
	if err != nil {
		return fmt.Errorf("copy events: %w", err)
	}
	if copied != int64(len(rows)) {
		return fmt.Errorf("%w: %d instead of %d", ErrLostAppend, copied, len(rows))
	}
	return nil
}
