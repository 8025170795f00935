package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
)

// Filter selects the events that match every set field. The zero Filter selects all.
type Filter struct {
	After      *int64        // after the event with this log index
	Before     *int64        // before the event with this log index
	Stream     uuid.NullUUID // of this aggregate
	StreamType string        // of this stream type
	Type       string        // of this type, such as "novel.created.v1"
	// that this integration caused, in its own stream, about its authors, and of staff about its novels and comments
	Integration uuid.NullUUID
	Actor       string        // by this actor, or by ActorID
	ActorID     uuid.NullUUID // by this integration
	Novel       uuid.NullUUID // of this novel, of its thread and of its comments
	From        *time.Time    // recorded at this time or later
	To          *time.Time    // recorded before this time
	Correlation string        // of this operation
}

// query collects the parameters of a statement.
type query struct{ args []any }

// arg adds a parameter and returns its placeholder.
func (q *query) arg(value any) string {
	q.args = append(q.args, value)
	return "$" + strconv.Itoa(len(q.args))
}

// rowConditions returns the conditions that no index supports, as SQL on an event e; "" if there are none.
func (f *Filter) rowConditions(q *query) string {
	var conditions []string
	add := func(format string, values ...any) {
		places := make([]any, len(values))
		for i, value := range values {
			places[i] = q.arg(value)
		}
		conditions = append(conditions, fmt.Sprintf(format, places...))
	}
	if f.StreamType != "" {
		add("e.stream_type = %s::text", f.StreamType)
	}
	if f.Type != "" {
		add("e.event_type = %s::text", f.Type)
	}
	if f.From != nil {
		add("e.recorded_at >= %s::timestamptz", *f.From)
	}
	if f.To != nil {
		add("e.recorded_at < %s::timestamptz", *f.To)
	}
	if f.Correlation != "" {
		add("coalesce(e.correlation, e.request_id) = %s::text", f.Correlation)
	}
	if f.Integration.Valid {
		id := f.Integration.UUID
		// What staff did with a novel or a comment: the first event tells whose it is, and the table of titles whose a novel
		// is that staff had barred before.
		add(`(e.stream_id = %s::uuid OR e.integration_id = %[1]s::uuid OR e.data->>'integrationId' = %s::text
    OR e.integration_id IS NULL AND e.stream_type IN ('novel', 'post') AND (
        (SELECT f.integration_id FROM events f WHERE f.stream_id = e.stream_id AND f.stream_version = 1) = %[1]s::uuid
        OR (SELECT t.owner_id FROM title_lookup t WHERE t.novel_id = e.stream_id) = %[1]s::uuid))`,
			id, id.String())
	}
	switch {
	case f.Actor != "" && f.ActorID.Valid:
		add("(e.actor = %s::text OR e.integration_id = %s::uuid)", f.Actor, f.ActorID.UUID)
	case f.Actor != "":
		add("e.actor = %s::text", f.Actor)
	case f.ActorID.Valid:
		add("e.integration_id = %s::uuid", f.ActorID.UUID)
	}
	if f.Novel.Valid {
		// The first event of a thread or of a comment names the novel; later ones may not. Not EXISTS, because PostgreSQL
		// would build a table of all first events.
		id := f.Novel.UUID
		add(`(e.stream_id = %s::uuid OR e.stream_type IN ('thread', 'post') AND CASE WHEN e.stream_version = 1
    THEN e.data->>'novelId' = %s::text
    ELSE (SELECT f.data->>'novelId' FROM events f WHERE f.stream_id = e.stream_id AND f.stream_version = 1) = %[2]s::text END)`,
			id, id.String())
	}
	return strings.Join(conditions, "\n  AND ")
}

// statements returns the statements of a page. The first one selects the events. The second one selects the cursor
// after the last row that the page may examine, and no row if fewer rows are left; it has no SQL if the page examines
// only the rows that it returns.
//
// If the filter has conditions that no index supports, the page examines rows that do not match them, too: an inner
// query selects these rows.
func (r *Reader) statements(after, end Cursor, limit int) (sql string, args []any, lastSQL string, lastArgs []any) {
	q := &query{}
	bounds, order := r.bounds(q, after, end)
	rows := "FROM events AS e WHERE " + bounds + " ORDER BY " + order
	offset := &query{args: slices.Clip(q.args)}
	conditions := r.filter.rowConditions(q)
	if conditions == "" {
		sql = "SELECT " + eventlog.Columns + "\n" + rows + " LIMIT " + q.arg(limit)
		return sql, q.args, "", nil
	}
	scanned := max(r.maxScanned, limit)
	sql = "SELECT " + eventlog.Columns + "\nFROM (SELECT e.* " + rows + " LIMIT " + q.arg(scanned) +
		") AS e\nWHERE " + conditions + "\nORDER BY " + order + " LIMIT " + q.arg(limit)
	lastSQL = "SELECT e.log_index + 1, e.batch_id " + rows + " OFFSET " + offset.arg(scanned-1) + " LIMIT 1"
	return sql, q.args, lastSQL, offset.args
}

// bounds returns the conditions for the part of the log that a page may examine, and the order of a suitable index.
func (r *Reader) bounds(q *query, after, end Cursor) (conditions, order string) {
	to := int64(end.Position)
	if r.filter.Before != nil {
		to = min(to, *r.filter.Before)
	}
	from := q.arg(max(after.Position, r.start))
	conditions = fmt.Sprintf("e.log_index >= %s::bigint AND e.log_index < %s::bigint", from, q.arg(to))
	if !r.filter.Stream.Valid {
		return conditions, "e.log_index"
	}
	// In a stream, versions are in log order. With the condition on the version, a page begins in the index on stream and
	// version where the earlier one ended.
	return fmt.Sprintf(`e.stream_id = %s::uuid AND e.stream_version > coalesce((SELECT p.stream_version FROM events AS p
    WHERE p.log_index = %s::bigint - 1 AND p.stream_id = %[1]s::uuid), 0) AND `, q.arg(r.filter.Stream.UUID), from) +
		conditions, "e.stream_version"
}

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
	sql, args, lastSQL, lastArgs := r.statements(after, end, limit)
	var batch pgx.Batch
	after.QueueCheck(&batch)
	end.QueueCheck(&batch)
	batch.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
		page.Events, cut, err = collect(rows)
		return err
	})
	if lastSQL != "" {
		batch.Queue(lastSQL, lastArgs...).QueryRow(func(row pgx.Row) error {
			var next Cursor
			err := row.Scan(&next.Position, &next.Batch)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			page.Next, page.More = next, true
			return err
		})
	}
	eventlog.QueueReplicated(&batch)
	switch err := r.db.SendBatch(ctx, &batch).Close(); {
	case errors.Is(err, ErrCursorMismatch):
		return Page{}, ErrCursorMismatch
	case err != nil:
		return Page{}, fmt.Errorf("read history: %w", err)
	}
	if n := len(page.Events); n == limit || cut {
		page.Next, page.More = page.Events[n-1].Cursor(), true
	}
	return page, nil
}

// Newest calls emit with up to limit events, newest first, page by page. Like Page, it waits for the synchronous
// standby.
func (r *Reader) Newest(ctx context.Context, limit int, emit func([]Event) error) error {
	end, err := r.End(ctx)
	if err != nil {
		return err
	}
	page := Older{Before: int64(end.Position), More: true}
	for limit > 0 && page.More {
		if page, err = r.Older(ctx, page.Before, min(limit, streamPage)); err != nil {
			return err
		}
		if err := emit(page.Events); err != nil {
			return err
		}
		limit -= len(page.Events)
	}
	return nil
}

// Older is a page of events that match a filter, newest first.
type Older struct {
	Events []Event
	Before int64 // log index before which the next page begins
	More   bool  // false: no event is left to examine
}

// Older returns up to limit events before a log index, newest first, fewer when they are large or rarely match the
// filter. Like Page, it waits for the synchronous standby.
func (r *Reader) Older(ctx context.Context, before int64, limit int) (Older, error) {
	if r.filter.Before != nil {
		before = min(before, *r.filter.Before)
	}
	from, order := int64(r.start), "e.log_index"
	q := &query{}
	conditions := r.filter.rowConditions(q)
	switch {
	case r.filter.Stream.Valid:
		conditions = strings.TrimSuffix("e.stream_id = "+q.arg(r.filter.Stream.UUID)+"::uuid AND "+conditions, " AND ")
		order = "e.stream_version" // versions are in log order
	case conditions != "": // without an index: examine a part of the log
		from = max(from, before-int64(r.maxScanned))
	}
	if conditions != "" {
		conditions = " AND " + conditions
	}
	sql := fmt.Sprintf("SELECT %s\nFROM events AS e WHERE e.log_index >= %s::bigint AND e.log_index < %s::bigint%s\n"+
		"ORDER BY %s DESC LIMIT %s", eventlog.Columns, q.arg(from), q.arg(before), conditions, order, q.arg(limit))
	page := Older{Before: from}
	var cut bool
	var batch pgx.Batch
	batch.Queue(sql, q.args...).Query(func(rows pgx.Rows) (err error) {
		page.Events, cut, err = collect(rows)
		return err
	})
	eventlog.QueueReplicated(&batch)
	if err := r.db.SendBatch(ctx, &batch).Close(); err != nil {
		return Older{}, fmt.Errorf("read history: %w", err)
	}
	if n := len(page.Events); n == limit || cut {
		page.Before = page.Events[n-1].LogIndex
	}
	page.More = page.Before > int64(r.start)
	return page, nil
}

// indexAtSQL bisects the log: recorded_at grows with the log index. The LIMIT makes PostgreSQL look each event up.
const indexAtSQL = `WITH RECURSIVE search (moment, low, high) AS (
    SELECT m, 0::bigint, (SELECT coalesce(max(log_index) + 1, 0) FROM events) FROM unnest($1::timestamptz[]) AS m
    UNION ALL
    SELECT s.moment, CASE WHEN e.recorded_at < s.moment THEN e.log_index + 1 ELSE s.low END,
           CASE WHEN e.recorded_at < s.moment THEN s.high ELSE e.log_index END
    FROM search AS s CROSS JOIN LATERAL (
        SELECT log_index, recorded_at FROM events WHERE log_index = (s.low + s.high) / 2 LIMIT 1
    ) AS e WHERE s.low < s.high
)
SELECT low FROM search WHERE low = high ORDER BY moment`

// IndexesAt returns for each moment the log index of the first event that was recorded then or later, which may be the
// next one of the log. The moments are in order.
func IndexesAt(ctx context.Context, db database.Querier, moments ...time.Time) ([]int64, error) {
	return database.Collect(ctx, db, "log indexes of times", pgx.RowTo[int64], indexAtSQL, moments)
}

// Event is an event with its stored bytes.
type Event struct{ eventlog.Row }

// Cursor returns the cursor after the event.
func (e *Event) Cursor() Cursor {
	return Cursor{Position: events.Position(e.LogIndex + 1), Batch: e.Metadata.Batch}
}

const atSQL = "SELECT " + eventlog.Columns + "\nFROM events WHERE log_index = $1"

// At returns the event with a log index; ErrNotFound when there is none. Like Page it waits for the
// synchronous standby.
func At(ctx context.Context, db database.DB, index int64) (Event, error) {
	var found []Event
	var batch pgx.Batch
	batch.Queue(atSQL, index).Query(func(rows pgx.Rows) (err error) {
		found, _, err = collect(rows)
		return err
	})
	eventlog.QueueReplicated(&batch)
	if err := db.SendBatch(ctx, &batch).Close(); err != nil {
		return Event{}, fmt.Errorf("read event: %w", err)
	}
	if len(found) == 0 {
		return Event{}, ErrNotFound
	}
	return found[0], nil
}

const streamTypeSQL = `SELECT stream_type FROM events WHERE stream_id = $1 AND stream_version = 1`

// StreamType returns the type of a stream; ErrNotFound when there is no such stream.
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

// AppendCloudEvent appends an event to a buffer as a CloudEvent with its cursor, and its personal data unless that was
// erased; see eventlog.AppendCloudEvent.
func AppendCloudEvent(buffer []byte, e *Event) ([]byte, error) {
	return eventlog.AppendCloudEvent(buffer, &e.Row, e.Cursor().String(), e.Personal)
}

const (
	pace = 5 * time.Millisecond   // longest pause after a read that found events
	poll = 400 * time.Millisecond // longest time between two reads

	defaultPatience = 15 * time.Second
)

// streamPage is the maximum number of events that a stream holds in memory.
const streamPage = 500

// Stream reads the log up to its end, or follows it.
type Stream struct {
	Reader *Reader
	Limit  int            // number of events after which the stream ends; 0: no limit
	Follow bool           // continue at the end of the log
	Wake   *eventlog.Wake // signals appends; nil: the log is read every 400 ms
	// Patience is the longest time for a page; default 15 s. Without a limit, streams that wait for the synchronous
	// standby would keep the connections of the history, and would not notice a shutdown.
	Patience time.Duration
}

// Run calls emit with the events after a cursor, page by page, in short transactions. It calls idle between pages and
// every 400 ms while it waits. It ends at the end of the stream, when ctx ends, or when reading, emit or idle fails.
func (s *Stream) Run(ctx context.Context, after Cursor, emit func([]Event) error, idle func() error) error {
	var end Cursor              // of the log, when it was last read
	begun, more := false, false // more events are before the end
	left := s.Limit
	follow := eventlog.Follow{Wake: s.Wake, Pace: pace, Poll: poll}
	return follow.Each(ctx, func(ctx context.Context) (eventlog.Span, error) {
		if !more {
			now, err := s.Reader.End(ctx)
			if err != nil {
				return eventlog.Span{}, err
			}
			if begun && now == end {
				return eventlog.Span{}, idle()
			}
			end, begun = now, true
		}
		limit := streamPage
		if s.Limit > 0 {
			limit = min(limit, left)
		}
		reading, cancel := context.WithTimeout(ctx, cmp.Or(s.Patience, defaultPatience))
		defer cancel()
		page, err := s.Reader.Page(reading, after, end, limit)
		if err != nil {
			return eventlog.Span{}, err
		}
		read := int(page.Next.Position - after.Position)
		after, more = page.Next, page.More
		if len(page.Events) > 0 {
			if err := emit(page.Events); err != nil {
				return eventlog.Span{}, err
			}
		}
		if left -= len(page.Events); s.Limit > 0 && left == 0 {
			return eventlog.Span{}, eventlog.ErrEnd
		}
		if err := idle(); err != nil {
			return eventlog.Span{}, err
		}
		if !more && !s.Follow {
			return eventlog.Span{}, eventlog.ErrEnd
		}
		return eventlog.Span{Read: read, Full: more}, nil
	})
}
