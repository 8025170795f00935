package staff

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events"
)

// Delivery identifies a command, so that its repetition is recognised. (Key, Source) is unique.
type Delivery struct {
	Key    string // the Idempotency-Key, which becomes the id of the event
	Source string // CloudEvents source of the command's first event
}

// ReplayedError says that the command was carried out before, and what it recorded first.
type ReplayedError struct {
	StreamID uuid.UUID
	Event    events.Event
}

func (e *ReplayedError) Error() string { return "the command was carried out before" }

const findDeliverySQL = `SELECT stream_id, event_type, data FROM events WHERE event_id = $1 AND event_source = $2`

// replayed fails with a ReplayedError when the delivery is on record.
func (s *Staff) replayed(ctx context.Context) error {
	if s.Delivery == nil {
		return nil
	}
	var streamID uuid.UUID
	var stored events.Stored
	err := s.Pool.QueryRow(ctx, findDeliverySQL, s.Delivery.Key, s.Delivery.Source).Scan(&streamID, &stored.Type, &stored.Data)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("find delivery: %w", err)
	}
	event, err := events.Decode(stored)
	if err != nil {
		return fmt.Errorf("decode delivery: %w", err)
	}
	return &ReplayedError{StreamID: streamID, Event: event}
}
