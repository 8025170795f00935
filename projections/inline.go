package projections

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"novelgate/events"
	"novelgate/events/eventlog"
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

// Append appends events in one transaction, with the inline projections, and notifies all processes. It is for programs
// that append now and then; a service runs eventlog.Wake.Notify.
func Append(ctx context.Context, db interface {
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}, recorded ...events.Recorded,
) error {
	var batch pgx.Batch
	if err := QueueAppend(ctx, &batch, recorded); err != nil {
		return err
	}
	if err := db.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("append: %w", err)
	}
	return nil
}

// QueueAppend adds to a batch the statements of Append.
func QueueAppend(ctx context.Context, batch *pgx.Batch, recorded []events.Recorded) error {
	if err := eventlog.Queue(batch, recorded); err != nil {
		return err
	}
	if err := QueueInline(ctx, batch, recorded); err != nil {
		return err
	}
	eventlog.QueueNotification(batch)
	return nil
}

// queue is a database.Execer that sends nothing before the batch is sent.
type queue struct{ batch *pgx.Batch }

func (q queue) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	q.batch.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}
