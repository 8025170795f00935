// Package committer turns commands into events, many commands in one transaction (group commit).
//
// # Life of a batch
//
// A command joins the queue of a lane, chosen by its folded title, so that the commands on one novel keep their order,
// unless one meets a lock (committer.go). A lane takes all commands that arrived while its previous batch was in
// flight: there is no timer, so a single command does not wait. An integration has a limited share of the lanes
// (ratelimit.Shares). Its further commands wait outside of the queues and do not delay other integrations. A batch
// takes one of two paths (attempt.go):
//
//   - The fast path is for comments on titles that the lane has in its cache. It reads nothing and assumes that all
//     keys are new: an optimistic insert. One round trip carries the append, the inline projections, a check of the
//     cache (cache.go), and the commit.
//   - The plain path is for all other batches, and for a batch that failed on the fast path. One round trip reads the
//     titles, threads, parents and keys of all commands (read.go). A second one reads slugs if novels will be created.
//     The last one carries the append, the inline projections and the commit.
//
// On both paths, the commands are decided one after another, each on the effects of the earlier ones (decide.go). pgx
// sends the statements of a pgx.Batch with one Sync, so they are one transaction. Its first write is the append.
//
// # Failures
//
// After any failure on the fast path, such as a duplicate key or a stale cache, the batch takes the plain path.
//
// A conflict means that another lane or replica was faster and nothing was written: the batch is read and decided
// again, from the second attempt on under the lock of the log. After three conflicts, or when the database or
// this program refuses the batch, it is split in halves, each with its own transaction. Splitting continues until only
// commands that fail on their own return errors, and all others have succeeded. While the database is unreachable, the
// batch is not split: it is tried again as a whole, and in the end fails as a whole with ErrUnavailable.
//
// For a lock of another session a lane waits at most lock_timeout, which is longer for the lock of the log. The
// commands that need the lock are set apart, and all others are committed. If rows of titles are locked, one statement
// finds them, and the upserts of these titles are set apart. For other locks (of a creation or a key that another
// session has not committed) the batch is split, between titles and, on a title with a thread, between keys, until only
// commands that need one lock are left. Commands that were set apart are retried between the following batches, each
// time for at most one lock_timeout on each path. After their deadline they fail with ErrUnavailable.
//
// When the answer to a commit is lost, the keys are read again. Every attempt has its own batch id in the metadata of
// its events, so the batch recognises events of its own attempts. The first command with such a key is answered as the
// delivery itself, any other as its retry. If the database stays unreachable, the command fails with ErrOutcomeUnknown:
// it is safe to repeat it with the same key.
//
// Creations and updates of novels use permits, which a batch takes once and keeps over its attempts. A failed attempt
// releases its permits to the next one. They are charged again if the failed attempt turns out to be committed. If the
// limiter fails, or does not answer within half of the batch's time, only the commands that need a permit fail.
//
// A comment does not depend on the version of its novel: a comment that was decided before staff rejected the title is
// stored, even if it is committed a moment after the rejection. An upsert conflicts with the rejection and is decided
// again.
//
// Close refuses new commands and returns when every accepted command is answered.
package committer
