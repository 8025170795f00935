package history

// CheckSQL is the statement that checks a cursor. $1, $2: transaction and ordinal.
var CheckSQL = checkSQL

// SetMaxScanned makes pages end after fewer rows.
func (r *Reader) SetMaxScanned(n int) { r.maxScanned = n }

// Statements returns the statements of a page; the second may be "".
func (r *Reader) Statements(
	after Cursor, horizon Horizon, limit int,
) (sql string, args []any, lastSQL string, lastArgs []any) {
	st := r.statements(after, horizon, limit)
	return st.events.sql, st.events.args, st.last.sql, st.last.args
}

// Ahead returns a horizon that is a number of transactions further.
func (h Horizon) Ahead(transactions uint64) Horizon {
	h.xmin += transactions
	return h
}
