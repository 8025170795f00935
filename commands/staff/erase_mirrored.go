package staff

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/projections"
)

//go:embed erase_mirrored.sql
var eraseMirroredSQL string

// EraseMirrored erases at a mirror what the erasure of an author has erased at the origin: all that is personal in
// their comments and in decisions about them, up to the event AuthorErased, which the transaction has just appended.
// Comments are found as EraseAuthor finds them.
func EraseMirrored(ctx context.Context, tx pgx.Tx, erased *events.Recorded) error {
	of, ok := erased.Event.(events.AuthorErased)
	if !ok {
		return nil
	}
	deliveries, err := projections.Skipped(ctx, tx, projections.Posts{}.Name())
	if err != nil {
		return err
	}
	skipped := make([]uuid.UUID, 0, len(deliveries))
	for delivery := range deliveries {
		if delivery.Source == events.PostsSource(of.IntegrationID) {
			skipped = append(skipped, events.PostID(of.IntegrationID, delivery.ID))
		}
	}
	var name *string
	var streams []uuid.UUID
	var stream uuid.UUID
	var external *string
	// ForEachRow returns the error.
	rows, _ := tx.Query(ctx, eraseMirroredSQL, erased.StreamID, of.IntegrationID, skipped, erased.Position.Ordinal)
	_, err = pgx.ForEachRow(rows, []any{&stream, &external}, func() error {
		if external != nil && events.AuthorID(of.IntegrationID, *external) == erased.StreamID {
			name, streams = external, append(streams, stream)
			external = nil
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("find what to erase of author %s: %w", erased.StreamID, err)
	}
	if name == nil {
		return nil // the origin had erased it before the mirror read it
	}
	if _, err := tx.Exec(ctx, eraseSQL, of.IntegrationID, *name, streams); err != nil {
		return fmt.Errorf("erase author %s: %w", erased.StreamID, err)
	}
	return nil
}
