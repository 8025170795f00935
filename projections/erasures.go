package projections

import (
	"context"
	"fmt"

	"novelgate/events"
	"novelgate/internal/database"
)

// applyBetweenErasures applies the events between the erasures of authors, each part as a batch of its own, and each
// erasure in its place with a statement that takes the author and the erasure's place in the log: transaction id and
// position.
func applyBetweenErasures(ctx context.Context, tx database.Execer, batch []events.Recorded, eraseSQL string,
	apply func(ctx context.Context, tx database.Execer, part []events.Recorded) error,
) error {
	begin := 0
	for i := range batch {
		if _, ok := batch[i].Event.(events.AuthorErased); !ok {
			continue
		}
		if err := apply(ctx, tx, batch[begin:i]); err != nil {
			return err
		}
		at := batch[i].Position
		if _, err := tx.Exec(ctx, eraseSQL, batch[i].StreamID, at.TransactionID, at.Ordinal); err != nil {
			return fmt.Errorf("erase author: %w", err)
		}
		begin = i + 1
	}
	return apply(ctx, tx, batch[begin:])
}
