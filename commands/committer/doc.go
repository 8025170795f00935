// Package committer turns commands into events, many commands in one transaction (group commit).
//
// # Life of a batch
//
// A command joins the queue of a lane, chosen by its folded title, so that the commands on one novel keep their order
// (committer.go). A lane takes what has queued up while its previous batch was in flight: there is no timer, so a lone
// command does not wait. One integration has no more than its share of the lanes (ratelimit.Shares); what it sends
// beyond that waits outside, and neither fills a queue nor delays others. A batch takes one of two paths
// (attempt.go):
//
//   - The fast path is for comments on titles that the lane has in its cache. It reads nothing and presumes that all
//     keys are new: an optimistic insert. One round trip carries the append, the inline projections, a check of the
//     cache (cache.go), and the commit.
//   - The plain path is for everything else, and for a batch that did not pass the fast one. One round trip reads the
//     titles, threads, parents and keys of all commands (read.go), and a second one slugs if novels are going to be
//     created. The last one carries the append, the inline projections and the commit.
//
// On both, the commands are decided one after another, each on the effects of those before it (decide.go). The
// statements of a pgx batch up to its one Sync are one transaction, whose first write is the append.
//
// # Failures
//
// A duplicate key, a stale cache, a refusal or any other failure on the fast path leads to the plain path.
//
// A conflict (another lane or replica was faster) means that nothing was written: the batch is read and decided
// again, from the second attempt on behind advisory locks on its titles. After three conflicts, or on any other
// refusal by the database, the batch is cut in halves, each in its own transaction, until only the commands that fail
// for their own reasons return errors and all others have succeeded.
//
// A lock that another session holds for longer than lock_timeout is no reason to wait. The upserts of all titles with
// locked rows are set apart together; for other locks (a creation or a key that another session has not committed) the
// batch is cut, between titles and, on a title with a thread, between keys, until all others are committed. What was
// set apart is tried again between the following batches, each time for one lock_timeout, until its time is up:
// ErrUnavailable.
//
// When the answer to a commit is lost, the keys are read again: every attempt has a batch id of its own in the
// metadata of its events, and events of an attempt whose answer was lost are this batch's own success. The first
// command with such a key is answered as the delivery itself, any other as its retry. If the database stays away, the
// command fails with ErrOutcomeUnknown: repeating it with the same key is safe.
//
// Creations use permits that a batch takes once and keeps over its attempts. The permits of an attempt that came to
// nothing are used by the next one, and are charged again when it turns out to have been committed. A limiter that
// fails or does not answer within half of the batch's time fails the commands that create, not their neighbours.
//
// A comment is not tied to the version of its novel: one that was decided before staff rejected the title is stored,
// even if it is committed a moment after the rejection. An upsert conflicts with the rejection and is decided again.
//
// Close stops intake and returns when every accepted command is answered.
package committer
