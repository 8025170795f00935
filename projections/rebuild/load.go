package rebuild

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/inorder"
	"novelgate/projections"
)

const (
	// Only the builder on record may add to the new tables; FOR SHARE makes one who takes over wait for this transaction.
	recordRangeSQL = `INSERT INTO projection_rebuild_ranges (name, from_transaction_id, from_position, to_transaction_id, to_position, events)
SELECT name, $3, $4, $5, $6, $7 FROM projection_rebuilds WHERE name = $1 AND builder = $2 FOR SHARE`

	recordRestSQL = `INSERT INTO projection_rebuild_rest (name, transaction_id, position)
SELECT $1, e.transaction_id, e.position FROM unnest($2::xid8[], $3::integer[]) AS e (transaction_id, position)`
)

// errSkippedMeanwhile means that an event is left out which those behind it were loaded with.
var errSkippedMeanwhile = errors.New("an event was skipped while others were loaded")

// load copies what the old log adds into the new tables.
func (r *rebuild) load(ctx context.Context, bulk projections.Bulk) error {
	for {
		err := r.loadRanges(ctx, bulk)
		switch {
		case err == nil:
			return r.enter(ctx, Indexing)
		case !errors.Is(err, errSkippedMeanwhile):
			return err
		}
	}
}

// loadRanges loads the ranges that are not on record yet, side by side. They are committed in order, because each may
// rely on what those before it add.
func (r *rebuild) loadRanges(ctx context.Context, bulk projections.Bulk) error {
	ranges, err := eventlog.Split(ctx, r.pool, r.record.target, r.RangeSize)
	if err != nil {
		return err
	}
	loaded, err := r.loaded(ctx)
	if err != nil {
		return err
	}
	ranges = loaded.rest(ranges)
	r.advance(0)
	group, working := errgroup.WithContext(ctx)
	todo, nothingLeft := make(chan *rangeLoad), make(chan struct{})
	group.Go(func() error {
		defer close(todo)
		defer close(nothingLeft)
		loader := &lockedLoader{loader: bulk.NewLoader()}
		var loading, committing inorder.Line
		for _, whole := range ranges {
			select {
			case todo <- &rangeLoad{Range: whole, loader: loader, loading: loading.Next(), committing: committing.Next()}:
			case <-working.Done():
				return nil
			}
		}
		return nil
	})
	for worker := range r.Workers {
		group.Go(func() error {
			portion := eventlog.NewPortion(r.RangeSize)
			for l := range todo {
				if err := r.yield(working, func() error { return r.loadRange(working, l, portion) }); err != nil {
					return err
				}
				if err := r.standAside(working, worker, nothingLeft); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// rangeLoad is what is left of a range on its way into the new tables.
type rangeLoad struct {
	eventlog.Range
	loader              *lockedLoader
	loading, committing inorder.Turn
}

// lockedLoader is a loader that a worker may ask out of turn: to find out which event is to blame.
type lockedLoader struct {
	mu     sync.Mutex
	loader projections.Loader
}

func (l *lockedLoader) load(batch []events.Recorded) ([]projections.Rows, []events.Recorded, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return projections.Load(l.loader, batch)
}

// loadRange loads a range portion by portion.
func (r *rebuild) loadRange(ctx context.Context, l *rangeLoad, portion *eventlog.Portion) error {
	for more := true; more; {
		chunk, err := eventlog.ReadFirst(ctx, r.pool, l.Range, portion, projections.Streams(r.Projection))
		if err != nil {
			return err
		}
		more = chunk.End != l.UpTo
		if err := r.loadChunk(ctx, l, &chunk); err != nil {
			// Ranges before it are finished, so that the first event that cannot be applied is the one that is reported.
			return cmp.Or(l.committing.Await(ctx), err)
		}
	}
	l.committing.Pass()
	return nil
}

// loadChunk loads what comes first of what is left of a range.
func (r *rebuild) loadChunk(ctx context.Context, l *rangeLoad, chunk *eventlog.Chunk) error {
	part := eventlog.Range{After: l.After, UpTo: chunk.End, Count: l.Count}
	if part.UpTo != l.UpTo {
		part.Count = chunk.Read // those of other kinds of stream are counted with the last part
	}
	begun := false
	err := r.surely(ctx, chunk, func(batch []events.Recorded) error {
		if begun {
			return errSkippedMeanwhile
		}
		begun = true
		return r.writePart(ctx, l, part, batch)
	}, func(tx pgx.Tx, batch []events.Recorded) error {
		rows, _, err := l.loader.load(batch)
		if err != nil {
			return err
		}
		return projections.CopyIn(ctx, tx, r.schema(), rows)
	})
	if err != nil {
		return err
	}
	l.After, l.Count = part.UpTo, l.Count-part.Count
	r.advance(part.Count)
	return nil
}

// writePart copies the rows that the events of a part of a range add, and records it with the events that do anything
// else.
func (r *rebuild) writePart(ctx context.Context, l *rangeLoad, part eventlog.Range, batch []events.Recorded) error {
	if err := l.loading.Await(ctx); err != nil {
		return err
	}
	rows, rest, err := l.loader.load(batch)
	if err != nil {
		return err
	}
	if part.UpTo == l.UpTo {
		l.loading.Pass()
	}
	return pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		if err := projections.CopyIn(ctx, tx, r.schema(), rows); err != nil {
			return err
		}
		if err := l.committing.Await(ctx); err != nil {
			return err
		}
		return r.recordRange(ctx, tx, part, rest)
	})
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
