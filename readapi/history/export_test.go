package history

// CheckSQL is the statement that checks a cursor. $1, $2: position and batch.
var CheckSQL = checkSQL

// SetMaxScanned makes pages end after fewer rows.
func (r *Reader) SetMaxScanned(n int) { r.maxScanned = n }

// Statements returns the statements of a page; the second may be "".
func (r *Reader) Statements(after, end Cursor, limit int) (sql string, args []any, lastSQL string, lastArgs []any) {
	return r.statements(after, end, limit)
}
