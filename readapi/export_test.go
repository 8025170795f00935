package readapi

// Statements, for tests of their plans.
var (
	LocateSQL, OnePostSQL, NovelSQL = locateSQL, onePostSQL, novelSQL
	LatestSQL, LatestOnNovelSQL     = latestSQL, latestOnNovelSQL
)

// Statement returns the statement that reads the first page of a discussion, and its arguments.
func Statement(params DiscussionParams) (sql string, args []any) {
	q := newPageQuery(params)
	return q.statement()
}
