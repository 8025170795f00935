// Package history reads the event log in order, filtered, in pages or live, as stored bytes, and serves it to auditors
// and staff: /api/events, /api/streams and /api/access-log. docs/auditors.md and docs/openapi.yaml describe the routes.
// Every read is recorded; see AccessLog. It also folds events into the state of a novel, a discussion or an integration
// at a past moment.
//
// # Order and cursors
//
// Events come in the order of their log indexes. A reader that continues from its last Cursor gets every event once,
// however many transactions append at the same time.
//
// A cursor is valid only in its own log, and only until a failover or a restore sets that log back before it. So a
// Cursor identifies the event before it. Every page checks, on its own connection, that the log still has this event.
//
// # Synchronous standbys
//
// A commit whose wait for the synchronous standby is cancelled becomes visible, and a failover loses it. So no event
// and no cursor leaves the database before that standby has the event.
//
// # Bounded work
//
// A page is one batch of short statements. A filter without an index examines at most 20,000 rows of the log; the page
// then ends, short or empty, with the cursor of the next one. Only the filters by stream and by log index have an
// index. One for each other filter would slow down every append, and a million events pass a filter in 4 to 12 s on a
// busy machine (docs/auditors.md).
package history
