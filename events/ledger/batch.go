package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/eventlog"
	"novelgate/internal/database"
)

// ErrGap is returned for a transaction whose events are not numbered 0, 1, 2, …: their log indexes would have gaps.
var ErrGap = errors.New("positions of a transaction have a gap")

// batch is what one seal adds to the ledger.
type batch struct {
	start, end state
	events     int
	full       bool      // there may be more to read at once
	oldest     time.Time // recorded_at of the first event

	transactions []uint64 // that begin in the batch
	firsts       []int64  // log index of the first event of each
	counts       []int32  // and how many each has

	bundles     [][]byte // pieces of entry bundles
	bundleFirst []int64

	pieces []piece
}

// builder makes one batch from events in log order. The tree grows on with every batch.
type builder struct {
	batch   *batch
	grower  *grower
	encoder *encoder
}

func newBuilder(t *tree, start state) *builder {
	return &builder{batch: &batch{start: start, end: start}, grower: t.grow(), encoder: newEncoder()}
}

// add appends an event, whose bytes the builder does not keep.
func (b *builder) add(e *eventlog.Row) error {
	at := &b.batch.end.position
	index := b.grower.Size()
	switch {
	case e.Position.TransactionID == at.TransactionID && e.Position.Ordinal == at.Ordinal+1:
		if n := len(b.batch.counts); n > 0 {
			b.batch.counts[n-1] = e.Position.Ordinal + 1
		}
	case e.Position.TransactionID > at.TransactionID && e.Position.Ordinal == 0:
		b.batch.transactions = append(b.batch.transactions, e.Position.TransactionID)
		b.batch.firsts = append(b.batch.firsts, index)
		b.batch.counts = append(b.batch.counts, 1)
	default:
		return fmt.Errorf("%w: %s follows %s", ErrGap, e.Position, *at)
	}
	*at = e.Position
	if b.batch.events == 0 {
		b.batch.oldest = e.RecordedAt
	}
	b.batch.events++

	entry, err := b.appendEntry(index, e)
	if err != nil {
		return fmt.Errorf("event %s: %w", *at, err)
	}
	return b.grower.add(tlog.RecordHash(entry))
}

// appendEntry appends an entry to the bundle that it belongs to, and returns it.
func (b *builder) appendEntry(index int64, e *eventlog.Row) ([]byte, error) {
	last := len(b.batch.bundles) - 1
	if last < 0 || index%TileWidth == 0 {
		const usual = 300 // bytes of an entry
		b.batch.bundles = append(b.batch.bundles, make([]byte, 0, usual*(TileWidth-index%TileWidth)))
		b.batch.bundleFirst = append(b.batch.bundleFirst, index)
		last++
	}
	bundle, entry, err := b.encoder.appendFramed(b.batch.bundles[last], e)
	if err != nil {
		return nil, err
	}
	b.batch.bundles[last] = bundle
	return entry, nil
}

// finish closes the batch.
func (b *builder) finish() *batch {
	b.batch.pieces = b.grower.finish()
	b.batch.end.size, b.batch.end.root = b.grower.Size(), b.grower.Root()
	return b.batch
}

// lastPositionSQL finds the end of a transaction. $1: the transaction.
const lastPositionSQL = `SELECT max(position) FROM events WHERE transaction_id = $1`

// nextBatch reads up to limit events behind start and makes a batch of them. The tree, which has the size of start, has
// grown by the batch afterwards.
func nextBatch(ctx context.Context, db database.Querier, t *tree, start state, limit int) (*batch, error) {
	b := newBuilder(t, start)
	for row, err := range eventlog.RowsAfter(ctx, db, start.position, limit) {
		if err != nil {
			return nil, fmt.Errorf("read log after %s: %w", start.position, err)
		}
		if err := b.add(row); err != nil {
			return nil, err
		}
	}
	b.batch.full = b.batch.events == limit
	if last := len(b.batch.counts) - 1; b.batch.full && last >= 0 {
		// The last transaction may go on behind the limit. What is settled does not change: its end is known.
		var end int32
		if err := db.QueryRow(ctx, lastPositionSQL, b.batch.transactions[last]).Scan(&end); err != nil {
			return nil, fmt.Errorf("find the end of transaction %d: %w", b.batch.transactions[last], err)
		}
		b.batch.counts[last] = end + 1
	}
	return b.finish(), nil
}
