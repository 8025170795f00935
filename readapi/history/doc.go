// Package history reads the event log in its order, filtered, page by page or live, as the bytes that were stored; and
// serves it to auditors and staff: /api/events, /api/streams and /api/access-log. docs/audit.md and docs/openapi.yaml
// describe the routes. Every read is recorded; see AccessLog.
//
// # Order and cursors
//
// Events come in the order of the log, (transaction_id, position), and only settled ones: those below a horizon under
// which every transaction has ended. So nothing ever appears after a place that a reader has passed, and a reader that
// goes on from its last place misses nothing and gets nothing twice, however many transactions append at the same time.
// A Cursor is such a place. An event gets its log index later, when the ledger has sealed it.
//
// A place is good in the log that it came from, as long as that is not set back by a failover or a restore. So a Cursor
// says which event it is behind, and every page checks that the log still has it, and that what counts as settled has
// settled, on the connection that reads the page.
//
// # Bounded work
//
// A page is one short statement. A filter that no index serves is applied to at most ScanRows rows of the log; the page
// then ends there, short or empty, and says where the next one begins. No filter has an index of its own: each would
// cost every append, and reading the whole log past a filter takes a second for a million events.
package history
