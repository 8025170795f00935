// Package imports is bulk import: partners upload lines, each of which is a command of the live interface, and a worker
// executes them. docs/imports.md describes it to partners.
//
// # Spool
//
// Lines are stored in chunks of up to a thousand (spool.go), each in a transaction of one statement, because readers of
// the log wait for the oldest transaction that writes. A chunk is the unit of work: it holds its lines and their
// outcomes. A line that was stored is emptied with the transaction that records its outcome, so the spool keeps the
// words of people only while it needs them.
//
// # Workers
//
// Each replica has workers (worker.go). A worker leases a chunk: a holder and a deadline in its row, and no open
// transaction. It submits the lines to the committer, in their order, and saves their outcomes from time to time and at
// the end, each time with one statement that fails when the lease is lost. Lines without a saved outcome are executed
// again. Their commands are idempotent, and an event on record whose request id names the import and the line is the
// line's own success, not a replay. So each line has one outcome, whenever a worker is killed.
//
// Chunks with upserts of novels are executed one after another, in the order of the import. All others are comments,
// whose order has no meaning.
//
// # Replies
//
// A reply whose parent is not on record waits: the committer refuses it, and the save adds it to import_waiting. Round
// 0 executes all chunks. Each later round visits the chunks that have waiting lines and executes those whose parent
// is on record by then; odd rounds go from the last chunk to the first, since the parent of a waiting line is mostly
// after it. When a round brings no progress after the import is complete, the next one is final: replies whose parent
// does not wait itself are stored top-level. If that brings no progress either, the replies left answer one another in
// circles, and the first line of a circle is stored top-level.
//
// See docs/decisions/0020-bulk-import.md.
package imports
