package rebuild

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/projections"
)

const (
	// Only the builder on record may add to the new tables; FOR SHARE makes one who takes over wait for this transaction.
	recordRangeSQL = `INSERT INTO projection_rebuild_ranges (name, from_transaction_id, from_position, to_transaction_id, to_position, events)
SELECT name, $3, $4, $5, $6, $7 FROM projection_rebuilds WHERE name = $1 AND builder = $2 FOR SHARE`

	recordRestSQL = `INSERT INTO projection_rebuild_rest (name, transaction_id, position)
SELECT $1, e.transaction_id, e.position FROM unnest($2::xid8[], $3::integer[]) AS e (transaction_id, position)`
)

// load copies what the old log adds into the new tables, range by range, in any order.
func (r *rebuild) load(ctx context.Context, bulk projections.Bulk) error {
	ranges, err := eventlog.Split(ctx, r.pool, r.record.target, r.RangeSize)
	if err != nil {
		return err
	}
	loaded, err := r.loaded(ctx)
	if err != nil {
		return err
	}
	r.advance(0)
	group, working := errgroup.WithContext(ctx)
	todo, nothingLeft := make(chan eventlog.Range), make(chan struct{})
	group.Go(func() error {
		defer close(todo)
		defer close(nothingLeft)
		for _, part := range ranges {
			if _, done := loaded[part.UpTo]; done {
				continue
			}
			select {
			case todo <- part:
			case <-working.Done():
				return nil
			}
		}
		return nil
	})
	for worker := range r.Workers {
		group.Go(func() error {
			for part := range todo {
				if err := r.yield(working, func() error { return r.loadRange(working, bulk, part) }); err != nil {
					return err
				}
				if err := r.standAside(working, worker, nothingLeft); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return r.enter(ctx, Indexing)
}

func (r *rebuild) loadRange(ctx context.Context, bulk projections.Bulk, part eventlog.Range) error {
	conn, err := r.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect to load: %w", err)
	}
	chunk, err := eventlog.ReadRange(ctx, conn, part, projections.Streams(r.Projection))
	conn.Release()
	if err != nil {
		return err
	}
	err = r.surely(ctx, &chunk, func(batch []events.Recorded) error {
		return pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
			rest, err := r.copyIn(ctx, tx, bulk, batch)
			if err != nil {
				return err
			}
			return r.recordRange(ctx, tx, part, rest)
		})
	}, func(tx pgx.Tx, batch []events.Recorded) error {
		_, err := r.copyIn(ctx, tx, bulk, batch)
		return err
	})
	if err != nil {
		return err
	}
	r.advance(part.Count)
	return nil
}

// copyIn copies the rows that events add, and returns the events that do anything else.
func (r *rebuild) copyIn(ctx context.Context, tx pgx.Tx, bulk projections.Bulk, batch []events.Recorded) ([]events.Recorded, error) {
	rows, rest, err := projections.Load(bulk, batch)
	if err != nil {
		return nil, err
	}
	return rest, projections.CopyIn(ctx, tx, r.schema(), rows)
}

func (r *rebuild) recordRange(ctx context.Context, tx pgx.Tx, part eventlog.Range, rest []events.Recorded) error {
	name := r.Projection.Name()
	tag, err := tx.Exec(ctx, recordRangeSQL, name, r.builder, part.After.TransactionID, part.After.Ordinal,
		part.UpTo.TransactionID, part.UpTo.Ordinal, part.Count)
	if err != nil {
		return fmt.Errorf("record range: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrTakenOver
	}
	if len(rest) == 0 {
		return nil
	}
	transactions, ordinals := make([]pgtype.Uint64, len(rest)), make([]int32, len(rest))
	for i := range rest {
		transactions[i] = pgtype.Uint64{Uint64: rest[i].Position.TransactionID, Valid: true}
		ordinals[i] = rest[i].Position.Ordinal
	}
	if _, err := tx.Exec(ctx, recordRestSQL, name, transactions, ordinals); err != nil {
		return fmt.Errorf("record what is left for later: %w", err)
	}
	return nil
}

// conn is a connection outside of a transaction.
func (r *rebuild) conn(ctx context.Context, do func(conn *pgxpool.Conn) error) error {
	conn, err := r.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Release()
	return do(conn)
}
