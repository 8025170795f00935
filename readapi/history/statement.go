package history

import (
	"fmt"
	"slices"

	"novelgate/events/eventlog"
)

// statement has the statements of a page, and what it takes to compute the number of events in the log up to each row
// from the count in the row.
type statement struct {
	sql  string
	args []any

	// lastSQL selects the last row that the page may examine, and no row if the page ended before. It is "" when the page
	// examines only the rows that it returns.
	lastSQL  string
	lastArgs []any

	start    Cursor // the page begins after it
	counted  bool   // rows have counts; otherwise they are numbered 1, 2, 3…
	relative bool   // counts are those of rows after start; in a stream they are those of events in the log
	base     *int64 // number of events up to start; nil: unknown
	sealed   int64  // number of sealed events when base was read
}

// setBase sets base. after is the cursor of the request, and count the number of events up to it; nil: unknown.
func (st *statement) setBase(after Cursor, count *int64) {
	switch {
	case st.start.Position != after.Position: // the page begins later, after the log index of the filter
		st.base = &st.start.count
	case count != nil:
		st.base = count
	case after.count > 0:
		st.base = &after.count
	}
}

// count returns the number of events up to a row, from the count in the row; 0: unknown.
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

// examined returns the number of events that a page has examined. Counts are unknown if more than maxCounted events are
// unsealed: then it returns maxCounted.
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

// statement returns the statement of a page. The inner query selects the rows to examine, the outer one the rows that
// match.
func (r *Reader) statement(after Cursor, horizon Horizon, limit int) statement {
	if after.Compare(r.start.Position) < 0 {
		after = r.start
	}
	q := &query{}
	bounds, order := r.bounds(q, after, horizon)
	boundsArgs := slices.Clip(q.args)
	from := "FROM events AS e WHERE " + bounds + " ORDER BY " + order
	conditions := r.filter.rowConditions(q)
	scanned, count, columns := limit, "", "e.* "
	if conditions != "" {
		scanned, conditions = max(r.maxScanned, limit), "\nWHERE "+conditions
		count, columns = ", e.count", "e.*, row_number() OVER (ORDER BY "+order+") AS count "
	}
	if r.filter.Stream.Valid {
		count, columns = ", "+countOrZeroSQL, "e.* "
	}
	st := statement{
		sql: "SELECT " + eventlog.Columns + count + "\nFROM (SELECT " + columns + from + " LIMIT " + q.arg(scanned) +
			") AS e" + conditions + "\nORDER BY " + order + " LIMIT " + q.arg(limit),
		start: after, relative: !r.filter.Stream.Valid, counted: count != "",
	}
	st.args = q.args
	if conditions != "" {
		last := &query{args: boundsArgs}
		if st.relative {
			count = ", " + last.arg(scanned) + "::bigint"
		}
		st.lastSQL = "SELECT e.transaction_id, e.position, " + digestSQL + count + " " + from + " OFFSET " +
			last.arg(scanned-1) + " LIMIT 1"
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
		// In a stream, versions are in log order. With the condition on the version, a page begins in the index on stream and
		// version where the earlier one ended.
		stream := q.arg(r.filter.Stream.UUID)
		conditions = fmt.Sprintf(`e.stream_id = %s::uuid AND e.stream_version > coalesce((SELECT p.stream_version FROM events AS p
    WHERE p.transaction_id = %s::xid8 AND p.position = %s::integer AND p.stream_id = %[1]s::uuid), 0) AND `, stream, transaction, ordinal) + conditions
		order = "e.stream_version"
	}
	return conditions, order
}
