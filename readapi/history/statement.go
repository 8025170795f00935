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

// statements returns the statements of a page. The first one selects the events. The second one selects the cursor
// after the last row that the page may examine, and no row if fewer rows are left; it has no SQL if the page examines
// only the rows that it returns.
//
// If the filter has conditions that no index supports, the page examines rows that do not match them, too: an inner
// query selects these rows.
func (r *Reader) statements(after, end Cursor, limit int) (page, last statement) {
	q := &query{}
	bounds, order := r.bounds(q, after, end)
	rows := "FROM events AS e WHERE " + bounds + " ORDER BY " + order
	offset := &query{args: slices.Clip(q.args)}
	conditions := r.filter.rowConditions(q)
	if conditions == "" {
		page.sql = "SELECT " + eventlog.Columns + "\n" + rows + " LIMIT " + q.arg(limit)
		page.args = q.args
		return page, last
	}
	scanned := max(r.maxScanned, limit)
	page.sql = "SELECT " + eventlog.Columns + "\nFROM (SELECT e.* " + rows + " LIMIT " + q.arg(scanned) +
		") AS e\nWHERE " + conditions + "\nORDER BY " + order + " LIMIT " + q.arg(limit)
	page.args = q.args
	last.sql = "SELECT e.log_index + 1, e.batch_id " + rows + " OFFSET " + offset.arg(scanned-1) + " LIMIT 1"
	last.args = offset.args
	return page, last
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
