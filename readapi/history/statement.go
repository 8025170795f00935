package history

import (
	"fmt"
	"slices"

	"novelgate/events/eventlog"
)

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
	counted  bool   // rows have counts; otherwise they are consecutive
	sealed   int64  // number of sealed events when base was read
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
	conditions := r.filter.rowConditions(q)
	most, count, place := limit, "", "e.* "
	if conditions != "" {
		most, conditions = max(r.maxScanned, limit), "\nWHERE "+conditions
		count, place = ", e.count", "e.*, row_number() OVER (ORDER BY "+order+") AS count "
	}
	if r.filter.Stream.Valid {
		count, place = ", "+countOrZeroSQL, "e.* "
	}
	st := statement{
		sql: "SELECT " + eventlog.Columns + count + "\nFROM (SELECT " + place + from + " LIMIT " + q.arg(most) + ") AS e" +
			conditions + "\nORDER BY " + order + " LIMIT " + q.arg(limit),
		start: after, relative: !r.filter.Stream.Valid, counted: count != "",
	}
	st.args = q.args
	if conditions != "" {
		last := &query{args: bound}
		if st.relative {
			count = ", " + last.arg(most) + "::bigint"
		}
		st.lastSQL = "SELECT e.transaction_id, e.position, " + digestSQL + count + " " + from + " OFFSET " +
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
