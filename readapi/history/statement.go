package history

import (
	"fmt"
	"slices"

	"novelgate/events/eventlog"
)

// statement is an SQL statement and its parameters.
type statement struct {
	sql  string
	args []any
}

// pageStatements are the statements of a page.
type pageStatements struct {
	counter

	events statement // selects the events of the page
	// last selects the last row that the page may examine, and no row if fewer rows are left. It has no SQL if the page
	// examines only the rows that it returns.
	last statement
}

// examined returns the number of events that a page has examined. Counts are unknown if more than maxCounted events are
// unsealed: then it returns maxCounted.
func (st *pageStatements) examined(page *Page) int {
	switch {
	case st.last.sql == "":
		return len(page.Events)
	case st.base == nil || page.Next.count == 0:
		return maxCounted
	default:
		return int(page.Next.count - *st.base)
	}
}

// counter computes the number of events in the log up to each row of a page.
type counter struct {
	start    Cursor // the page begins after it
	base     *int64 // number of events in the log up to start; nil: unknown
	inRow    bool   // the last column of a row is its count. Otherwise the count is the number of the row in the page
	absolute bool   // the count is the number of events in the log. Otherwise it begins after start
}

// setBase sets base. after is the cursor of the request, and count the number of events up to it; nil: unknown.
func (c *counter) setBase(after Cursor, count *int64) {
	switch {
	case c.start.Position != after.Position: // the page begins later, after the log index of the filter
		c.base = &c.start.count
	case count != nil:
		c.base = count
	case after.count > 0:
		c.base = &after.count
	}
}

// upTo returns the number of events in the log up to a row with a count; 0: unknown.
func (c *counter) upTo(count int64) int64 {
	switch {
	case c.absolute:
		return count
	case c.base == nil:
		return 0
	default:
		return *c.base + count
	}
}

// statements returns the statements of a page. If the filter has conditions that no index supports, the page examines
// rows that do not match them, too: an inner query selects these rows.
func (r *Reader) statements(after Cursor, horizon Horizon, limit int) pageStatements {
	if after.Compare(r.start.Position) < 0 {
		after = r.start
	}
	q := &query{}
	bounds, order := r.bounds(q, after, horizon)
	rows := "FROM events AS e WHERE " + bounds + " ORDER BY " + order
	last := &query{args: slices.Clip(q.args)}
	conditions := r.filter.rowConditions(q)
	inStream := r.filter.Stream.Valid // the log has other events between the rows, so SQL counts them
	st := pageStatements{counter: counter{start: after, inRow: inStream || conditions != "", absolute: inStream}}
	if conditions == "" {
		count := ""
		if inStream {
			count = ", " + countOrZeroSQL
		}
		st.events.sql = "SELECT " + eventlog.Columns + count + "\n" + rows + " LIMIT " + q.arg(limit)
		st.events.args = q.args
		return st
	}

	scanned := max(r.maxScanned, limit)
	offset := last.arg(scanned - 1)
	columns, count, lastCount := "e.*, row_number() OVER (ORDER BY "+order+") AS count ", "e.count", offset+"::bigint + 1"
	if inStream {
		columns, count, lastCount = "e.* ", countOrZeroSQL, countOrZeroSQL
	}
	st.events.sql = "SELECT " + eventlog.Columns + ", " + count + "\nFROM (SELECT " + columns + rows + " LIMIT " +
		q.arg(scanned) + ") AS e\nWHERE " + conditions + "\nORDER BY " + order + " LIMIT " + q.arg(limit)
	st.events.args = q.args
	st.last.sql = "SELECT e.transaction_id, e.position, " + digestSQL + ", " + lastCount + " " + rows +
		" OFFSET " + offset + " LIMIT 1"
	st.last.args = last.args
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
		// In a stream, versions are in log order. With the condition on the version, a page begins in the index on stream and
		// version where the earlier one ended.
		stream := q.arg(r.filter.Stream.UUID)
		conditions = fmt.Sprintf(`e.stream_id = %s::uuid AND e.stream_version > coalesce((SELECT p.stream_version FROM events AS p
    WHERE p.transaction_id = %s::xid8 AND p.position = %s::integer AND p.stream_id = %[1]s::uuid), 0) AND `, stream, transaction, ordinal) + conditions
		order = "e.stream_version"
	}
	return conditions, order
}
