package projections

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
)

// Reasons not to skip. ErrNotFailed is also a reason not to retry.
var (
	ErrNotFailed = errors.New("the projection has not failed")
	ErrNoReason  = errors.New("skipping an event takes a reason")
)

// Delivery identifies an event in any log: its CloudEvents id and source.
type Delivery struct{ ID, Source string }

// DeliveryOf returns the Delivery of an event.
func DeliveryOf(recorded *events.Recorded) Delivery {
	return Delivery{ID: recorded.ID, Source: recorded.Source}
}

const (
	// Columns of the envelope only, because data may be unreadable. Without a failed event they are NULL.
	failedEventSQL = `SELECT p.state, coalesce(e.log_index, 0), coalesce(e.event_id, ''), e.integration_id, coalesce(e.event_source, ''),
    coalesce(e.event_type, '')
FROM projections AS p LEFT JOIN events AS e ON e.log_index = p.failed_log_index
WHERE p.name = $1`

	lastVersionSQL = `SELECT coalesce(max(stream_version), 0) FROM events WHERE stream_id = $1`

	// skipSQL updates no row if the projection no longer stands at the event to skip, $2.
	skipSQL = `UPDATE projections
SET position = $2 + 1, state = 'running', error = NULL, failed_log_index = NULL, updated_at = statement_timestamp()
WHERE name = $1 AND state = 'failed' AND failed_log_index = $2`
)

// Skip makes a failed projection continue after the event at which it stopped. It records the skip, its actor and the
// reason in the log, in the transaction that moves the checkpoint past this event. A rebuild skips the same event. It
// fails with ErrUnknownProjection, ErrNotFailed or ErrNoReason.
func Skip(
	ctx context.Context, pool *pgxpool.Pool, name, actor, reason string,
) (skipped events.ProjectionEventSkipped, err error) {
	if reason == "" {
		return skipped, ErrNoReason
	}
	err = eventlog.Under(ctx, pool, func(tx pgx.Tx) error {
		if skipped, err = failedEvent(ctx, tx, name); err != nil {
			return err
		}
		skipped.Reason = reason
		stream := events.ProjectionID(name)
		version := 0
		if err := tx.QueryRow(ctx, lastVersionSQL, stream).Scan(&version); err != nil {
			return fmt.Errorf("read version of projection stream: %w", err)
		}
		commandID := uuid.Must(uuid.NewV7()).String()
		err := Append(ctx, tx, events.Recorded{
			StreamType: events.ProjectionStream, StreamID: stream, StreamVersion: version + 1, ID: commandID,
			Source: "staff/projections/" + name, Event: skipped,
			Metadata: events.Metadata{Actor: actor, Correlation: commandID},
		})
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, skipSQL, name, skipped.LogIndex)
		if err == nil && tag.RowsAffected() == 0 { // a replica has retried the projection meanwhile
			err = ErrNotFailed
		}
		return wrap(err, "move checkpoint")
	})
	return skipped, wrap(err, "skip")
}

// failedEvent returns the event at which a projection stopped, as a skip records it without its reason.
func failedEvent(ctx context.Context, db database.DB, name string) (events.ProjectionEventSkipped, error) {
	s := events.ProjectionEventSkipped{Projection: name}
	var state string
	var integration uuid.NullUUID
	err := db.QueryRow(ctx, failedEventSQL, name).Scan(&state, &s.LogIndex, &s.EventID, &integration, &s.EventSource,
		&s.EventType)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return s, fmt.Errorf("%w %q among the asynchronous ones", ErrUnknownProjection, name)
	case err != nil:
		return s, fmt.Errorf("find the event: %w", err)
	case state != Failed:
		return s, ErrNotFailed
	}
	if integration.Valid {
		s.EventSource = events.JoinSource(integration.UUID, s.EventSource)
	}
	return s, nil
}

// Skipped returns the events that staff have skipped in a projection. A rebuild leaves them out.
func Skipped(ctx context.Context, q database.Querier, name string) (map[Delivery]bool, error) {
	history, err := eventlog.ReadStream(ctx, q, events.ProjectionStream, events.ProjectionID(name), 0)
	if err != nil {
		return nil, fmt.Errorf("read what was skipped: %w", err)
	}
	skipped := map[Delivery]bool{}
	for i := range history {
		if e, ok := history[i].Event.(events.ProjectionEventSkipped); ok {
			skipped[Delivery{ID: e.EventID, Source: e.EventSource}] = true
		}
	}
	return skipped, nil
}
