package staff

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events"
)

//go:embed erase_mirrored.sql
var eraseMirroredSQL string

// EraseMirrored repeats the erasure of an author at a mirror, in the transaction that has just appended the event. It
// erases the personal data in the author's comments and in the decisions about them, up to the event. It does nothing
// for an event other than AuthorErased.
func EraseMirrored(ctx context.Context, tx pgx.Tx, event *events.Recorded) error {
	erased, ok := event.Event.(events.AuthorErased)
	if !ok {
		return nil
	}
	externalUUID, streams, err := streamsToErase(ctx, tx, event, erased.IntegrationID)
	if err != nil {
		return fmt.Errorf("find what to erase of author %s: %w", event.StreamID, err)
	}
	if len(streams) == 0 {
		return nil // the origin had erased the personal data before the mirror read the events
	}
	if _, err := tx.Exec(ctx, eraseSQL, erased.IntegrationID, externalUUID, streams); err != nil {
		return fmt.Errorf("erase author %s: %w", event.StreamID, err)
	}
	return nil
}

// streamsToErase returns the author's identifier at the integration, which AuthorErased does not contain, and the
// streams with personal data of the author. The query also returns comments of other authors, because the author of a
// comment that the projection posts has skipped or not yet applied is not in a table. The author's id, which is derived
// from the identifier, tells them apart.
func streamsToErase(
	ctx context.Context, tx pgx.Tx, event *events.Recorded, integrationID uuid.UUID,
) (externalUUID string, streams []uuid.UUID, err error) {
	skipped, err := skippedPosts(ctx, tx, integrationID)
	if err != nil {
		return "", nil, err
	}
	var stream uuid.UUID
	var identifier *string
	// ForEachRow returns the error.
	rows, _ := tx.Query(ctx, eraseMirroredSQL, event.StreamID, integrationID, skipped, event.Position.Ordinal)
	_, err = pgx.ForEachRow(rows, []any{&stream, &identifier}, func() error {
		if identifier != nil && events.AuthorID(integrationID, *identifier) == event.StreamID {
			externalUUID, streams = *identifier, append(streams, stream)
		}
		return nil
	})
	return externalUUID, streams, err
}
