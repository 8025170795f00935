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
	start  events.Position // from Filter.After

	maxScanned int // the constant maxScanned, except in tests

	replicated Cursor // everything before it survives a failover to a synchronous standby
}

// Page is a page of events that match a filter.
type Page struct {
	Events []Event
	Next   Cursor // continues after this page
	More   bool   // false: Next is the end of the read
}

// NewReader returns a reader. It fails with ErrBeyond when the log does not have the log index Filter.After.
func NewReader(ctx context.Context, db database.DB, filter Filter) (*Reader, error) {
	r := &Reader{db: db, filter: filter, maxScanned: maxScanned}
	if filter.After != nil {
		if err := checkIndex(ctx, db, *filter.After); err != nil {
			return nil, err
		}
		r.start = events.Position(*filter.After + 1)
	}
	return r, nil
}

// checkIndex fails with ErrBeyond when the log does not have a log index.
func checkIndex(ctx context.Context, db database.DB, index int64) error {
	var found bool
	const hasIndexSQL = `SELECT EXISTS (SELECT FROM events WHERE log_index = $1)`
	if err := db.QueryRow(ctx, hasIndexSQL, index).Scan(&found); err != nil {
		return fmt.Errorf("find log index %d: %w", index, err)
	}
	if !found {
		return ErrBeyond
	}
	return nil
}

// End returns the cursor at the end of the log.
func (r *Reader) End(ctx context.Context) (Cursor, error) {
	end, err := eventlog.End(ctx, r.db)
	return Cursor(end), err
}

// pageBytes is the size of the event data at which a page is full.
const pageBytes = 512 << 10

// collect reads events until the page is full. cut reports whether more events may follow.
func collect(rows pgx.Rows) (list []Event, cut bool, err error) {
	defer rows.Close()
	list = []Event{}
	var row eventlog.Row
	for size := 0; rows.Next(); {
		if err := row.Scan(rows); err != nil {
			return nil, false, err
		}
		list = append(list, Event{row.Clone()})
		if size += len(row.Data) + len(row.Personal); size >= pageBytes {
			cut = true
			break
		}
	}
	rows.Close()
	return list, cut, rows.Err()
}

// Page returns up to limit events between two cursors, fewer when they are large or rarely match the filter. It fails
// with ErrCursorMismatch when the log does not have all events before the cursors. It runs as one batch, which waits
// for the synchronous standby: see eventlog.AwaitReplicated.
func (r *Reader) Page(ctx context.Context, after, end Cursor, limit int) (Page, error) {
	if end.Position < after.Position { // the end was read from a server that lags
		end = after
	}
	page, cut := Page{Next: end}, false
	list, last := r.statements(after, end, limit)
	var batch pgx.Batch
	after.QueueCheck(&batch)
	end.QueueCheck(&batch)
	batch.Queue(list.sql, list.args...).Query(func(rows pgx.Rows) (err error) {
		page.Events, cut, err = collect(rows)
		return err
	})
	if last.sql != "" {
		batch.Queue(last.sql, last.args...).QueryRow(func(row pgx.Row) error {
			var next Cursor
			err := row.Scan(&next.Position, &next.Batch)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			page.Next, page.More = next, true
			return err
		})
	}
	// A standby that has everything up to the end has all further pages up to it, too.
	if r.replicated != end {
		eventlog.QueueReplicated(&batch)
	}
	switch err := r.db.SendBatch(ctx, &batch).Close(); {
	case errors.Is(err, ErrCursorMismatch):
		return Page{}, ErrCursorMismatch
	case err != nil:
		return Page{}, fmt.Errorf("read history: %w", err)
	}
	r.replicated = end
	if n := len(page.Events); n == limit || cut {
		page.Next, page.More = page.Events[n-1].Cursor(), true
	}
	return page, nil
}
