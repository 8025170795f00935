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
	ErrNoEvent   = errors.New("the event at which the projection stopped is no longer in the log: retry the projection")
)

// Delivery identifies an event in any log: its CloudEvents id and source.
type Delivery struct{ ID, Source string }

// DeliveryOf returns the Delivery of an event.
func DeliveryOf(recorded *events.Recorded) Delivery {
	return Delivery{ID: recorded.ID, Source: recorded.Source}
}

const (
	// Columns of the envelope only, because data may be unreadable.
	failedEventSQL = `SELECT p.state, e.transaction_id, e.position, e.event_id, e.integration_id, e.event_source, e.event_type
FROM projections AS p
LEFT JOIN events AS e ON (e.transaction_id, e.position) = (p.failed_transaction_id, p.failed_position)
WHERE p.name = $1`

	lastVersionSQL = `SELECT coalesce(max(stream_version), 0) FROM events WHERE stream_id = $1`

	// skipSQL updates no row if the projection no longer stands at the event to skip, $2, $3.
	skipSQL = `UPDATE projections
SET transaction_id = $2, position = $3, state = 'running', error = NULL, failed_transaction_id = NULL,
    failed_position = NULL, updated_at = statement_timestamp()
WHERE name = $1 AND state = 'failed' AND failed_transaction_id = $2 AND failed_position = $3`
)

// Skip makes a failed projection continue after the event at which it stopped. It records the skip, its actor and the
// reason in the log, in the transaction that moves the checkpoint past this event. A rebuild skips the same event. It
// fails with ErrUnknownProjection, ErrNotFailed, ErrNoEvent or ErrNoReason.
func Skip(
	ctx context.Context, pool *pgxpool.Pool, name, actor, reason string,
) (skipped events.ProjectionEventSkipped, err error) {
	if reason == "" {
		return skipped, ErrNoReason
	}
	err = eventlog.Under(ctx, pool, func(tx pgx.Tx) error {
		var at events.Position
		if skipped, at, err = failedEvent(ctx, tx, name); err != nil {
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
			Metadata: events.Metadata{Actor: actor, Correlation: commandID, Batch: uuid.New()},
		})
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, skipSQL, name, at.TransactionID, at.Ordinal)
		if err == nil && tag.RowsAffected() == 0 { // a replica has retried the projection meanwhile
			err = ErrNotFailed
		}
		return wrap(err, "move checkpoint")
	})
	return skipped, wrap(err, "skip")
}

// failedEvent returns the event at which a projection stopped, as a skip records it without its reason, and its
// position.
func failedEvent(
	ctx context.Context, db database.DB, name string,
) (events.ProjectionEventSkipped, events.Position, error) {
	s := events.ProjectionEventSkipped{Projection: name}
	var state string
	var id, source, eventType *string
	var integration uuid.NullUUID
	var transaction *uint64
	var ordinal *int32
	err := db.QueryRow(ctx, failedEventSQL, name).Scan(&state, &transaction, &ordinal, &id, &integration, &source,
		&eventType)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return s, events.Position{}, fmt.Errorf("%w: %q", ErrUnknownProjection, name)
	case err != nil:
		return s, events.Position{}, fmt.Errorf("find the event: %w", err)
	case state != Failed:
		return s, events.Position{}, ErrNotFailed
	case transaction == nil:
		return s, events.Position{}, ErrNoEvent
	}
	s.EventID, s.EventSource, s.EventType = *id, *source, *eventType
	if integration.Valid {
		s.EventSource = events.JoinSource(integration.UUID, *source)
	}
	at := events.Position{TransactionID: *transaction, Ordinal: *ordinal}
	s.Position = at.String()
	return s, at, nil
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
