package staff

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events"
)

// Delivery identifies a command, so that a retry is recognised. (Key, Source) is unique.
type Delivery struct {
	Key    string // the Idempotency-Key, which becomes the id of the event
	Source string // CloudEvents source of the command's first event
	// Canonical is the normalised command. Its fingerprint is stored; nil: no fingerprint.
	Canonical []byte
}

// ReplayedError means that the command is a retry. It has the first event of the original command.
type ReplayedError struct {
	StreamID uuid.UUID
	Event    events.Event
	Mismatch bool // the recorded command was different
}

func (e *ReplayedError) Error() string { return "the command was carried out before" }

const findDeliverySQL = `SELECT stream_id, event_type, data, salt, fingerprint FROM events
WHERE event_id = $1 AND event_source = $2 AND integration_id IS NULL AND (stream_type <> 'post' OR stream_version > 1)`

// replayed fails with a ReplayedError when the delivery is on record.
func (s *Staff) replayed(ctx context.Context) error {
	if s.Delivery == nil {
		return nil
	}
	found := &ReplayedError{}
	var stored events.Stored
	var salt uuid.NullUUID
	var fingerprint uuid.NullUUID
	err := s.Pool.QueryRow(ctx, findDeliverySQL, s.Delivery.Key, s.Delivery.Source).Scan(&found.StreamID, &stored.Type,
		&stored.Data, &salt, &fingerprint)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("find delivery: %w", err)
	}
	if found.Event, err = events.Decode(stored); err != nil {
		return fmt.Errorf("decode delivery: %w", err)
	}
	found.Mismatch = s.Delivery.Canonical != nil &&
		events.Fingerprint(fingerprint.UUID).Differs(salt, s.Delivery.Canonical)
	return found
}
