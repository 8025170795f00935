package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
)

// ScanRows is the maximum number of rows that one page examines for a filter without an index.
const ScanRows = 20_000

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

	scanRows int

	// See UseStandbys.
	standbys *database.Standbys
	patience time.Duration
}

// Page is a page of events that match a filter.
type Page struct {
	Events   []Event
	Examined int    // number of events
	Next     Cursor // continues after this page
	More     bool   // more events may follow below the horizon
}

// NewReader resolves the log indexes of the filter to positions. It fails with ErrBeyond.
func NewReader(ctx context.Context, db database.DB, filter Filter) (*Reader, error) {
	r := &Reader{db: db, filter: filter, scanRows: ScanRows}
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

// locateSQL finds the transaction of a log index. $1: log index.
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

var horizonSQL = `SELECT pg_snapshot_xmin(c), pg_snapshot_xmin(c) = pg_snapshot_xmax(c),
       coalesce(e.transaction_id, '0'), coalesce(e.position, 0), e.digest, coalesce(e.count, 0)
FROM pg_current_snapshot() AS c LEFT JOIN LATERAL (
    SELECT e.transaction_id, e.position, ` + digestSQL + ` AS digest, ` + countOrZeroSQL + ` AS count
    FROM events AS e WHERE e.transaction_id < pg_snapshot_xmin(c) ORDER BY e.transaction_id DESC,
        e.position DESC LIMIT 1
) AS e ON true`

// Horizon returns the current horizon.
func (r *Reader) Horizon(ctx context.Context) (Horizon, error) { return readHorizon(ctx, r.db) }

func readHorizon(ctx context.Context, db database.DB) (Horizon, error) {
	var h Horizon
	if err := db.QueryRow(ctx, horizonSQL).Scan(&h.xmin, &h.settled, &h.end.TransactionID, &h.end.Ordinal,
		&h.end.digest, &h.end.count); err != nil {
		return Horizon{}, fmt.Errorf("read horizon: %w", err)
	}
	return h, nil
}

// pageBytes is the size at which a page is full.
const pageBytes = 512 << 10

// collect reads events until the page is full. cut reports whether more may follow.
func collect(rows pgx.Rows) (list []Event, cut bool, err error) {
	defer rows.Close()
	list = []Event{}
	var row eventlog.Row
	for size := 0; rows.Next(); {
		e, err := scan(rows, &row)
		if err != nil {
			return nil, false, err
		}
		list = append(list, e)
		if size += len(e.Data) + len(e.Personal); size >= pageBytes {
			cut = true
			break
		}
	}
	rows.Close()
	return list, cut, rows.Err()
}

// Page returns up to limit events after a cursor and below the horizon, fewer when they are large. It fails with
// ErrElsewhere when cursor or horizon come from another log, or from before this one was set back. It runs as one batch
// on one server.
func (r *Reader) Page(ctx context.Context, after Cursor, horizon Horizon, limit int) (Page, error) {
	if page, ok := r.standbyPage(ctx, after, horizon, limit); ok {
		return page, nil
	}
	return r.page(ctx, r.db, after, horizon, limit)
}

func (r *Reader) page(ctx context.Context, db database.DB, after Cursor, horizon Horizon, limit int) (Page, error) {
	page, cut := Page{Next: horizon.Cursor()}, false
	st := r.statement(after, horizon, limit)
	var batch pgx.Batch
	batch.Queue(checkCountSQL, after.TransactionID, after.Ordinal).QueryRow(func(row pgx.Row) error {
		count, err := after.check(horizon, row)
		st.countFrom(after, count)
		return err
	})
	batch.Queue(st.sql, st.args...).Query(func(rows pgx.Rows) (err error) {
		page.Events, cut, err = collect(rows)
		for i := range page.Events {
			page.Events[i].count = st.count(page.Events[i].count)
		}
		return err
	})
	if st.lastSQL != "" {
		// Events below the horizon do not change, so this statement examines the same rows.
		batch.Queue(st.lastSQL, st.lastArgs...).QueryRow(func(row pgx.Row) error {
			var last Cursor
			err := row.Scan(last.Fields()...)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			last.count = st.count(last.count)
			page.Next, page.More = last, true
			return err
		})
	}
	switch err := db.SendBatch(ctx, &batch).Close(); {
	case errors.Is(err, ErrElsewhere):
		return Page{}, ErrElsewhere
	case err != nil:
		return Page{}, fmt.Errorf("read history: %w", err)
	}
	if n := len(page.Events); n == limit || cut {
		page.Next, page.More = page.Events[n-1].Cursor(), true
	}
	page.Examined = st.examined(&page)
	return page, nil
}

// statement is the statement of a page.
type statement struct {
	sql  string
	args []any

	// Selects the last row that the page examined, if it reached its limit; "" when it examines only the rows it returns.
	lastSQL  string
	lastArgs []any

	// Counts in its rows are relative to start; for a stream they are absolute.
	start    Cursor
	relative bool
	base     *int64 // count of start; nil: unknown
}

// countFrom sets the start of the page, where count is the number of events up to after.
func (st *statement) countFrom(after Cursor, count *int64) {
	switch {
	case st.start.Position != after.Position:
		st.base = &st.start.count
	case count != nil:
		st.base = count
	case after.count > 0:
		st.base = &after.count
	}
}

// count returns the number of events up to a row with a count; 0: unknown.
func (st *statement) count(found int64) int64 {
	switch {
	case !st.relative:
		return found
	case st.base == nil:
		return 0
	default:
		return *st.base + found
	}
}

// examined returns the number of events that a page has examined. If counts are unknown, many events are unsealed.
func (st *statement) examined(page *Page) int {
	switch {
	case st.lastSQL == "":
		return len(page.Events)
	case st.base == nil || page.Next.count == 0:
		return maxCounted
	default:
		return int(page.Next.count - *st.base)
	}
}

func (r *Reader) statement(after Cursor, horizon Horizon, limit int) statement {
	if after.Compare(r.start.Position) < 0 {
		after = r.start
	}
	q := &query{}
	bounds, order := r.bounds(q, after, horizon)
	bound := slices.Clip(q.args)
	from := "FROM events AS e WHERE " + bounds + " ORDER BY " + order
	count, place := "e.count", "e.*, row_number() OVER (ORDER BY "+order+") AS count "
	if r.filter.Stream.Valid {
		count, place = countOrZeroSQL, "e.* "
	}
	conditions := r.filter.rowConditions(q)
	most := limit
	if conditions != "" {
		most, conditions = max(r.scanRows, limit), "\nWHERE "+conditions
	}
	st := statement{
		sql: "SELECT " + columns + ", " + count + "\nFROM (SELECT " + place + from + " LIMIT " + q.arg(most) + ") AS e" +
			conditions + "\nORDER BY " + order + " LIMIT " + q.arg(limit),
		start: after, relative: !r.filter.Stream.Valid,
	}
	st.args = q.args
	if conditions != "" {
		last := &query{args: bound}
		if st.relative {
			count = last.arg(most) + "::bigint"
		}
		st.lastSQL = "SELECT e.transaction_id, e.position, " + digestSQL + ", " + count + " " + from + " OFFSET " +
			last.arg(most-1) + " LIMIT 1"
		st.lastArgs = last.args
	}
	return st
}

// bounds returns the conditions for the part of the log that a page may examine, and the order of a suitable index.
func (r *Reader) bounds(q *query, after Cursor, horizon Horizon) (conditions, order string) {
	transaction, ordinal := q.arg(after.TransactionID), q.arg(after.Ordinal)
	conditions = fmt.Sprintf("(e.transaction_id, e.position) > (%s::xid8, %s::integer) AND e.transaction_id < %s::xid8",
		transaction, ordinal, q.arg(horizon.xmin))
	order = "e.transaction_id, e.position"
	if r.end != nil {
		conditions += fmt.Sprintf(" AND (e.transaction_id, e.position) < (%s::xid8, %s::integer)", q.arg(r.end.TransactionID),
			q.arg(r.end.Ordinal))
	}
	if r.filter.Stream.Valid {
		// In a stream, versions are in log order. The first condition lets a later page skip the versions of earlier ones.
		stream := q.arg(r.filter.Stream.UUID)
		conditions = fmt.Sprintf(`e.stream_id = %s::uuid AND e.stream_version > coalesce((SELECT p.stream_version FROM events AS p
    WHERE p.transaction_id = %s::xid8 AND p.position = %s::integer AND p.stream_id = %[1]s::uuid), 0) AND `, stream, transaction, ordinal) + conditions
		order = "e.stream_version"
	}
	return conditions, order
}

var oneSQL = "SELECT " + countedColumns + "\nFROM events AS e WHERE e.transaction_id = $1 AND e.position = $2"

// At returns the event with a log index; ErrNotFound when there is none.
func At(ctx context.Context, db database.DB, index int64) (Event, error) {
	position, err := locate(ctx, db, index)
	if errors.Is(err, ErrBeyond) {
		return Event{}, ErrNotFound
	}
	if err != nil {
		return Event{}, err
	}
	return one(ctx, db, oneSQL, position.TransactionID, position.Ordinal)
}

const streamTypeSQL = `SELECT stream_type FROM events WHERE stream_id = $1 AND stream_version = 1`

// StreamType returns the type of a stream, also before its first event has settled; ErrNotFound when there is no such
// stream.
func StreamType(ctx context.Context, db database.DB, stream uuid.UUID) (string, error) {
	var kind string
	err := db.QueryRow(ctx, streamTypeSQL, stream).Scan(&kind)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("find stream: %w", err)
	}
	return kind, nil
}

// It finds only settled events.
var versionSQL = "SELECT " + countedColumns + `
FROM events AS e WHERE e.stream_id = $1 AND e.stream_version = $2 AND e.transaction_id < pg_snapshot_xmin(pg_current_snapshot())`

// Version returns one version of a stream; ErrNotFound when there is none.
func Version(ctx context.Context, db database.DB, stream uuid.UUID, version int) (Event, error) {
	return one(ctx, db, versionSQL, stream, version)
}

func one(ctx context.Context, db database.DB, sql string, args ...any) (Event, error) {
	rows, _ := db.Query(ctx, sql, args...) // CollectExactlyOneRow returns its error
	e, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (Event, error) {
		return scan(row, &eventlog.Row{})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return Event{}, ErrNotFound
	}
	if err != nil {
		return Event{}, fmt.Errorf("read event: %w", err)
	}
	return e, nil
}

// Event is an event with its stored bytes.
type Event struct {
	eventlog.Row
	LogIndex *int64 // nil until it is sealed

	digest digest // see Cursor
	count  int64
}

// columns are the columns of an event e that scan reads, followed by a count.
const columns = eventlog.Columns + `,
       (SELECT s.first_log_index + e.position FROM ledger_seals s WHERE s.transaction_id = e.transaction_id), ` + digestSQL

// countedColumns are columns with a computed count.
var countedColumns = columns + ", " + countOrZeroSQL

// scan scans an event. It reuses texts of row, which has the previous event.
func scan(result pgx.CollectableRow, row *eventlog.Row) (Event, error) {
	var e Event
	if err := row.Scan(result, &e.LogIndex, &e.digest, &e.count); err != nil {
		return Event{}, err
	}
	e.Row = row.Clone()
	return e, nil
}
