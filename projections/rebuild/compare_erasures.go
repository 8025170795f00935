package rebuild

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/projections"
)

var (
	errErased = fmt.Errorf("%w: the log has lost the words of an author, and the projection has yet to apply that "+
		"erasure: compare again when `novelgate serve` has run", ErrNotComparable)
	errErasing = fmt.Errorf("%w: an author is being erased, and the log has lost some of their words before that is on "+
		"record: compare again when `novelgate author erase` has ended", ErrNotComparable)
)

// An erasure is waited for, for a while: one that a projection has yet to apply, and one that is under way. Where a
// service runs, a projection follows in no time.
const (
	erasurePatience = 10 * time.Second
	erasurePoll     = 50 * time.Millisecond
)

// besideErasures compares, and once more when an erasure under way may be the reason for what differs.
func (c *comparison) besideErasures(ctx context.Context) error {
	err := c.whenApplied(ctx)
	if !errors.Is(err, errErasing) {
		return err
	}
	if err := c.awaitErasures(ctx); err != nil {
		return err
	}
	return c.whenApplied(ctx)
}

// whenApplied compares as soon as the projection has applied every erasure that is on record.
func (c *comparison) whenApplied(ctx context.Context) error {
	patience, cancel := context.WithTimeout(ctx, erasurePatience)
	defer cancel()
	for {
		err := c.inSnapshot(ctx)
		if !errors.Is(err, errErased) || !eventlog.Sleep(patience, erasurePoll) {
			return err
		}
	}
}

// awaitErasures waits until no erasure is under way, for a while.
func (c *comparison) awaitErasures(ctx context.Context) error {
	patience, cancel := context.WithTimeout(ctx, erasurePatience)
	defer cancel()
	for {
		underWay, err := projections.ErasureUnderWay(ctx, c.pool)
		if err != nil || !underWay || !eventlog.Sleep(patience, erasurePoll) {
			return err
		}
	}
}

const erasedBehindSQL = `SELECT EXISTS (SELECT FROM events WHERE (transaction_id, position) > ($1::xid8, $2::integer) AND event_type = $3)`

// wantErasuresApplied fails with errErased when an author was erased behind a position: the live tables were made of
// more than the log has now.
func (c *comparison) wantErasuresApplied(ctx context.Context, live pgx.Tx, end events.Position) error {
	if !c.forgetsAuthors() {
		return nil
	}
	var behind bool
	err := live.QueryRow(ctx, erasedBehindSQL, end.TransactionID, end.Ordinal, events.AuthorErased{}.Type()).Scan(&behind)
	if err != nil {
		return fmt.Errorf("look for erasures: %w", err)
	}
	if behind {
		return errErased
	}
	return nil
}

// erasedSinceSQL finds what was appended by a transaction that a snapshot does not show.
const erasedSinceSQL = `SELECT EXISTS (SELECT FROM events
WHERE transaction_id >= pg_snapshot_xmin($1::text::pg_snapshot) AND NOT pg_visible_in_snapshot(transaction_id, $1::text::pg_snapshot) AND event_type = $2)`

// wantNoErasureUnderWay fails with errErasing when something differs and an erasure was under way in the snapshot that
// was compared: it takes words out of the log before it is on record. One that has ended since has been recorded behind
// the snapshot. So the order of the two looks matters.
func (c *comparison) wantNoErasureUnderWay(ctx context.Context) error {
	differs := slices.ContainsFunc(c.result.Tables, func(t TableComparison) bool { return t.DifferenceCount > 0 })
	if !differs || !c.forgetsAuthors() {
		return nil
	}
	underWay, err := projections.ErasureUnderWay(ctx, c.pool)
	if err != nil {
		return err
	}
	if !underWay {
		if err := c.pool.QueryRow(ctx, erasedSinceSQL, c.snapshot, events.AuthorErased{}.Type()).Scan(&underWay); err != nil {
			return fmt.Errorf("look for erasures: %w", err)
		}
	}
	if underWay {
		return errErasing
	}
	return nil
}

// forgetsAuthors tells whether the projection follows the erasures of authors.
func (c *comparison) forgetsAuthors() bool {
	streams := projections.Streams(c.Projection)
	return streams == nil || slices.Contains(streams, events.AuthorStream)
}
