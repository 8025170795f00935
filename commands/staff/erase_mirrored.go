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
// for an event other than AuthorErased. Comments are found as EraseAuthor finds them.
func EraseMirrored(ctx context.Context, tx pgx.Tx, erased *events.Recorded) error {
	of, ok := erased.Event.(events.AuthorErased)
	if !ok {
		return nil
	}
	skipped, err := skippedPosts(ctx, tx, of.IntegrationID)
	if err != nil {
		return err
	}
	var externalUUID string
	var streams []uuid.UUID
	var stream uuid.UUID
	var uuidInEvent *string
	// ForEachRow returns the error.
	rows, _ := tx.Query(ctx, eraseMirroredSQL, erased.StreamID, of.IntegrationID, skipped, erased.Position.Ordinal)
	_, err = pgx.ForEachRow(rows, []any{&stream, &uuidInEvent}, func() error {
		if uuidInEvent != nil && events.AuthorID(of.IntegrationID, *uuidInEvent) == erased.StreamID {
			externalUUID, streams = *uuidInEvent, append(streams, stream)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("find what to erase of author %s: %w", erased.StreamID, err)
	}
	if len(streams) == 0 {
		return nil // the origin had erased the personal data before the mirror read the events
	}
	if _, err := tx.Exec(ctx, eraseSQL, of.IntegrationID, externalUUID, streams); err != nil {
		return fmt.Errorf("erase author %s: %w", erased.StreamID, err)
	}
	return nil
}
