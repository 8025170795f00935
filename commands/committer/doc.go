// Package committer turns commands into events, many commands in one transaction (group commit).
//
// # Life of a batch
//
// Commands join a queue (queue.go). A batch is all commands that arrived while the previous one was in flight: there is
// no timer, so a single command waits for nobody. Lines of bulk requests have a queue of their own: a batch takes them
// after all live commands, and few of them while there are live commands. An integration has a limited share of each
// queue (ratelimit.Shares). Its further commands wait outside and do not delay other integrations.
//
// A transaction is two round trips (attempt.go). The first one takes the lock of the log, then reads all that the batch
// needs: titles, threads, keys on record, parents, blocked authors, permits of the last minute (read.go); one more
// reads slugs if novels will be created. The commands are decided one after another, each on the effects of the earlier
// ones (decide.go). The second round trip carries the append, the inline projections, the granted permits and the
// commit. What is read under the lock stays true until the commit, so decisions are exact: nothing conflicts.
//
// Most batches are comments on novels that the committer knows (cache.go). They take the fast path, one round trip: the
// commands are decided on the cache, and the transaction takes the lock, checks that the cache holds, grants the
// permits and appends. It fails, and nothing is written, if the cache does not hold, an author is blocked, a limit is
// reached or a key is on record. Then the batch is decided again on what is stored.
//
// A change of a comment on record (change.go) is read with its comment under the lock, and so takes the long path with
// all of its batch. A withdrawal erases the comment in the transaction that appends its event.
//
// # Failures
//
// If the database or this program refuses a batch, it is split in halves, each with its own transaction, down to the
// command at fault; all others succeed. A row that another session locks is such a failure, after 100 ms, then after
// 1 ms: its command fails with ErrUnavailable. While the database is unreachable or the lock of the log is not free,
// the batch is tried again as a whole, and in the end fails as a whole with ErrUnavailable.
//
// When the answer to a commit is lost, the commands are decided again: the next attempt waits until the lost
// transaction has ended, because that has the lock. Every attempt has its own batch id in the metadata of its events,
// so the batch recognises events of its own attempts. The command that an attempt has recorded is answered as the
// delivery itself, any other with its key as a retry. If the database stays unreachable, the command fails with
// ErrOutcomeUnknown: it is safe to repeat it with the same key.
//
// A writer without the lock takes indexes of the log that a batch has chosen. While its transaction is open, commands
// that append fail with ErrUnavailable, after 100 ms. When it commits, the batch in flight is split and decided again.
//
// Close refuses new commands and returns when every accepted command is answered.
package committer
