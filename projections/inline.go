package projections

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"novelgate/events"
)

// Inline returns the projections that are written in the transaction that appends.
func Inline() []Projection {
	return []Projection{Titles{}, Threads{}, Integrations{}, Persons{}, AuthorDecisions{}}
}

// QueueInline adds to a batch the statements with which the inline projections follow the events.
func QueueInline(ctx context.Context, batch *pgx.Batch, recorded []events.Recorded) error {
	for _, projection := range Inline() {
		if err := projection.Apply(ctx, queue{batch}, recorded); err != nil {
			return fmt.Errorf("queue projection %s: %w", projection.Name(), err)
		}
	}
	return nil
}

// queue is a database.Execer that sends nothing before the batch is sent.
type queue struct{ batch *pgx.Batch }

func (q queue) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	q.batch.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}
