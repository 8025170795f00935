// Package imports is bulk import: partners upload lines, each of which is a command of the live interface, and workers
// execute them. docs/imports.md describes it to partners.
//
// # Spool
//
// Lines are stored in chunks of up to a thousand (spool.go). Each chunk is stored by one statement in its own
// transaction, because readers of the log wait for the oldest writing transaction. A chunk is the unit of work: it has
// lines and their outcomes. The transaction that saves the outcome of a line empties the line, unless it failed:
// partners can download failed lines. So the spool keeps personal data only while it is needed.
//
// # Workers
//
// Each replica has workers (worker.go). A worker leases a chunk: the row has the holder and a deadline, and no
// transaction stays open. The worker submits the lines to the committer in order, and saves their outcomes every few
// seconds and at the end, with one statement that fails when the lease is lost. Lines without a saved outcome are
// executed again. Their commands are idempotent. The request id of an event names the import and the line, so an event
// of an earlier attempt counts as the line's own success, not as a replay. So each line has one outcome, whenever a
// worker is killed.
//
// In round 0, a chunk with upserts of novels waits for all earlier chunks, and all later chunks wait for it. The order
// of chunks with only comments does not matter.
//
// # Replies
//
// A reply whose parent is not on record waits: the committer refuses it, and the save adds it to import_waiting. Round
// 0 executes all chunks. Each later round visits the chunks with waiting lines and executes the lines that are ready:
// their parent is on record now. Odd rounds go from the last chunk to the first, because the parent of a waiting line
// mostly comes after it. A visit that ends early, because permits run out or its replica stops, leaves the chunk in the
// round, so a round ends only when no line is ready. When a round of a complete import makes no progress, the next one
// is final: replies whose parent is not waiting itself are stored top-level. If that makes no progress either, the
// remaining replies form cycles, and the first line of a cycle is stored top-level.
//
// See docs/decisions/0020-bulk-import.md.
package imports
