package readapi

// Statements, for tests of their plans.
var (
	LocateSQL, OnePostSQL, NovelSQL = locateSQL, onePostSQL, novelSQL
	LatestSQL, LatestOnNovelSQL     = latestSQL, latestOnNovelSQL
)
