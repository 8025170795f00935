package rebuild

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/projections"
)

// How the events behind those that were loaded are read.
const (
	chunkSize  = 5000
	chunkAhead = 2
)

const searchPathSQL = `SELECT set_config('search_path', $1, true)`

// writeTo makes unqualified names in a transaction mean the new tables.
func (r *rebuild) writeTo(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, searchPathSQL, pgx.Identifier{r.schema()}.Sanitize()+", public"); err != nil {
		return fmt.Errorf("set search_path: %w", err)
	}
	return nil
}

// applyIn applies events within a transaction that writes to the new tables.
func (r *rebuild) applyIn(ctx context.Context, tx pgx.Tx, batch []events.Recorded) error {
	if len(batch) == 0 {
		return nil
	}
	var writes pgx.Batch
	if err := projections.Apply(ctx, r.Projection, &writes, batch); err != nil {
		return err
	}
	if err := tx.SendBatch(ctx, &writes).Close(); err != nil {
		return fmt.Errorf("apply %d events: %w", len(batch), err)
	}
	return nil
}

// follow applies the events behind those that the new tables hold, until few are left.
func (r *rebuild) follow(ctx context.Context) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	chunks, failed := eventlog.ReadAhead(reading, r.pool.Config().ConnConfig, r.record.position, eventlog.AheadConfig{
		Size: chunkSize, Chunks: chunkAhead, Streams: projections.Streams(r.Projection),
	})
	for chunk := range chunks {
		if err := r.wantLog(chunk.Identity); err != nil {
			stop()
			_ = failed() // because of stop
			return err
		}
		if err := r.yieldAndOvertake(ctx, chunk.Read, func() error { return r.followChunk(ctx, &chunk) }); err != nil {
			stop()
			_ = failed() // because of stop
			return err
		}
		r.record.position = chunk.End
		r.advance(chunk.Read)
	}
	return failed()
}

func (r *rebuild) followChunk(ctx context.Context, chunk *eventlog.Chunk) error {
	return r.applyChunk(ctx, chunk, func(tx pgx.Tx) error { return r.save(ctx, tx, chunk.End, chunk.Read) })
}

// applyChunk applies the events of a chunk, and what goes with them, in one transaction.
func (r *rebuild) applyChunk(ctx context.Context, chunk *eventlog.Chunk, with func(pgx.Tx) error) error {
	return r.surely(ctx, chunk, func(batch []events.Recorded) error {
		return pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
			if err := r.writeTo(ctx, tx); err != nil {
				return err
			}
			if err := r.applyIn(ctx, tx, batch); err != nil {
				return err
			}
			return with(tx)
		})
	}, func(tx pgx.Tx, batch []events.Recorded) error { return r.applyIn(ctx, tx, batch) })
}

// surely writes the events of a chunk, without those that are skipped. When one of them is the reason that it cannot,
// it finds out which: try writes some of them in a transaction that is rolled back.
func (r *rebuild) surely(
	ctx context.Context, chunk *eventlog.Chunk, write func([]events.Recorded) error,
	try func(pgx.Tx, []events.Recorded) error,
) error {
	for {
		err := r.refuseUndecodable(chunk)
		if err == nil {
			batch := r.withoutSkipped(chunk.Events)
			if err = write(batch); err == nil {
				return nil
			}
			err = r.blame(ctx, batch, err, try)
		}
		var poison *PoisonError
		if !errors.As(err, &poison) {
			return err
		}
		// It may have been skipped since.
		if loadErr := r.loadSkipped(ctx); loadErr != nil {
			return errors.Join(err, loadErr)
		}
		if !r.skips()[poison.Delivery] {
			return err
		}
	}
}

func (r *rebuild) refuseUndecodable(chunk *eventlog.Chunk) error {
	skipped := r.skips()
	for _, u := range chunk.Undecodable {
		if delivery := projections.DeliveryOf(&u.Recorded); !skipped[delivery] {
			return &PoisonError{Position: u.Recorded.Position, Delivery: delivery, err: u}
		}
	}
	return nil
}

func (r *rebuild) withoutSkipped(batch []events.Recorded) []events.Recorded {
	skipped := r.skips()
	if len(skipped) == 0 {
		return batch
	}
	return slices.DeleteFunc(slices.Clone(batch),
		func(e events.Recorded) bool { return skipped[projections.DeliveryOf(&e)] })
}

// skips returns the events that were skipped on record when it was last looked at.
func (r *rebuild) skips() map[projections.Delivery]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.skipped
}

func (r *rebuild) loadSkipped(ctx context.Context) (err error) {
	skipped, err := projections.Skipped(ctx, r.pool, r.Projection.Name())
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skipped = skipped
	return nil
}
