package history

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
)

// maxScanned is the maximum number of rows that one page examines for a filter without an index.
const maxScanned = 20_000

// ErrBeyond refuses a log index without an event.
var ErrBeyond = errors.New("no event has this log index yet")

// ErrNotFound is returned for an event that does not exist.
var ErrNotFound = errors.New("no such event")

// Reader reads the log with a filter. Create it with NewReader.
type Reader struct {
	db     database.DB
	filter Filter
	start  Cursor  // from Filter.After
	end    *Cursor // from Filter.Before: position of the first event after the range

	maxScanned int // the constant maxScanned, except in tests

	// Everything below this horizon survives a failover to a synchronous standby; 0: unknown.
	replicated uint64
}

// Page is a page of events that match a filter.
type Page struct {
	Events   []Event
	Examined int    // number of events examined
	Next     Cursor // continues after this page
	More     bool   // more events may follow below the horizon
}

// NewReader resolves the log indexes of the filter to positions. It fails with ErrBeyond.
func NewReader(ctx context.Context, db database.DB, filter Filter) (*Reader, error) {
	r := &Reader{db: db, filter: filter, maxScanned: maxScanned}
	if filter.After != nil {
		position, err := locate(ctx, db, *filter.After)
		if err != nil {
			return nil, err
		}
		r.start = Cursor{Position: position, count: *filter.After + 1}
	}
	if filter.Before != nil {
		position, err := locate(ctx, db, *filter.Before)
		if errors.Is(err, ErrBeyond) {
			position, err = sealedEnd(ctx, db)
		}
		if err != nil {
			return nil, err
		}
		r.end = &Cursor{Position: position}
	}
	return r, nil
}

// locateSQL finds the transaction with a log index. $1: log index.
const locateSQL = `SELECT transaction_id, first_log_index, event_count FROM ledger_seals
WHERE first_log_index <= $1 ORDER BY first_log_index DESC LIMIT 1`

// locate returns the position of the event with a log index.
func locate(ctx context.Context, db database.DB, index int64) (events.Position, error) {
	var p events.Position
	var first int64
	var count int32
	err := db.QueryRow(ctx, locateSQL, index).Scan(&p.TransactionID, &first, &count)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && index-first >= int64(count) {
		return events.Position{}, ErrBeyond
	}
	if err != nil {
		return events.Position{}, fmt.Errorf("find log index %d: %w", index, err)
	}
	p.Ordinal = int32(index - first) //nolint:gosec // less than count
	return p, nil
}

const sealedEndSQL = `SELECT transaction_id, event_count FROM ledger_seals ORDER BY first_log_index DESC LIMIT 1`

// sealedEnd returns the position after the last event with a log index.
func sealedEnd(ctx context.Context, db database.DB) (events.Position, error) {
	var p events.Position
	err := db.QueryRow(ctx, sealedEndSQL).Scan(&p.TransactionID, &p.Ordinal)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return events.Position{}, fmt.Errorf("find the end of the ledger: %w", err)
	}
	return p, nil
}

// horizonSQL reads the fields of a Horizon.
var horizonSQL = `SELECT pg_snapshot_xmin(c), pg_snapshot_xmin(c) = pg_snapshot_xmax(c),
       coalesce(e.transaction_id, '0'), coalesce(e.position, 0), e.digest, coalesce(e.count, 0)
FROM pg_current_snapshot() AS c LEFT JOIN LATERAL (
    SELECT e.transaction_id, e.position, ` + digestSQL + ` AS digest, ` + countOrZeroSQL + ` AS count
    FROM events AS e WHERE e.transaction_id < pg_snapshot_xmin(c) ORDER BY e.transaction_id DESC,
        e.position DESC LIMIT 1
) AS e ON true`

// Horizon returns the current horizon.
func (r *Reader) Horizon(ctx context.Context) (Horizon, error) { return ReadHorizon(ctx, r.db) }

// ReadHorizon returns the current horizon of a database.
func ReadHorizon(ctx context.Context, db database.DB) (Horizon, error) {
	var h Horizon
	if err := h.scan(db.QueryRow(ctx, horizonSQL)); err != nil {
		return Horizon{}, fmt.Errorf("read horizon: %w", err)
	}
	return h, nil
}

// Queue adds a statement to a batch that sets h to the current horizon.
func (h *Horizon) Queue(batch *pgx.Batch) { batch.Queue(horizonSQL).QueryRow(h.scan) }

// scan scans the row of horizonSQL.
func (h *Horizon) scan(row pgx.Row) error {
	return row.Scan(&h.xmin, &h.settled, &h.end.TransactionID, &h.end.Ordinal, &h.end.digest, &h.end.count)
}

// pageBytes is the size of the event data at which a page is full.
const pageBytes = 512 << 10

// collect reads events until the page is full. sealed is the number of sealed events; cut reports whether more events
// may follow.
func (c *counter) collect(rows pgx.Rows, sealed int64) (list []Event, cut bool, err error) {
	defer rows.Close()
	list = []Event{}
	var row eventlog.Row
	var count int64
	var more []any
	if c.inRow {
		more = []any{&count}
	}
	for size := 0; rows.Next(); {
		count++ // overwritten if the row has a count
		if err := row.Scan(rows, more...); err != nil {
			return nil, false, err
		}
		list = append(list, newEvent(&row, c.upTo(count), sealed))
		if size += len(row.Data) + len(row.Personal); size >= pageBytes {
			cut = true
			break
		}
	}
	rows.Close()
	return list, cut, rows.Err()
}

// Page returns up to limit events after a cursor and below the horizon, fewer when they are large or rarely match the
// filter. It fails with ErrCursorMismatch when the cursor or the horizon comes from another log, or from before this
// one was set back. It runs as one batch, which waits for the synchronous standby: see eventlog.AwaitReplicated.
func (r *Reader) Page(ctx context.Context, after Cursor, horizon Horizon, limit int) (Page, error) {
	page, cut := Page{Next: horizon.Cursor()}, false
	st := r.statements(after, horizon, limit)
	var sealed int64
	var batch pgx.Batch
	batch.Queue(checkSQL, after.TransactionID, after.Ordinal).QueryRow(func(row pgx.Row) (err error) {
		var count *int64
		count, sealed, err = after.check(horizon, row)
		st.setBase(after, count)
		return err
	})
	batch.Queue(st.events.sql, st.events.args...).Query(func(rows pgx.Rows) (err error) {
		page.Events, cut, err = st.collect(rows, sealed)
		return err
	})
	if st.last.sql != "" {
		// Events below the horizon do not change, so this statement examines the same rows.
		batch.Queue(st.last.sql, st.last.args...).QueryRow(func(row pgx.Row) error {
			var last Cursor
			err := row.Scan(last.Fields()...)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			last.count = st.upTo(last.count)
			page.Next, page.More = last, true
			return err
		})
	}
	// A standby that has everything below the horizon has all further pages below it, too.
	if r.replicated < horizon.xmin {
		eventlog.QueueReplicated(&batch)
	}
	switch err := r.db.SendBatch(ctx, &batch).Close(); {
	case errors.Is(err, ErrCursorMismatch):
		return Page{}, ErrCursorMismatch
	case err != nil:
		return Page{}, fmt.Errorf("read history: %w", err)
	}
	r.replicated = max(r.replicated, horizon.xmin)
	if n := len(page.Events); n == limit || cut {
		page.Next, page.More = page.Events[n-1].Cursor(), true
	}
	page.Examined = st.examined(&page)
	return page, nil
}
