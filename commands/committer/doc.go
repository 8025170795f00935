// Package committer turns commands into events, many commands in one transaction (group commit).
//
// # Life of a batch
//
// A command joins the queue of a lane, chosen by its folded title, so that the commands on one novel keep their
// order. A lane takes what has queued up while its previous batch was in flight: there is no timer, so a lone
// command waits for nobody. One integration has no more than its share of the lanes; what it sends beyond that waits
// outside of them (package share), so that it neither fills a queue nor holds others up. For each batch the lane
//
//  1. loads the working state in one round trip: the titles, threads and parents that the commands name, unless it
//     remembers them, see memory, and their own keys, unless they are comments that are presumed to be first
//     deliveries, see doubt (a second one reads slugs, only when novels are going to be created). When nothing is left
//     to read, there is no such trip;
//  2. decides the commands one after another on that state, each seeing the effects of those before it;
//  3. sends the append, the inline projections and the commit in one round trip. The statements of a pgx
//     batch up to its one Sync are one transaction, whose first write is the append. If nothing was read, its last
//     statement makes it fail when what was remembered has changed;
//  4. answers.
//
// # Failures
//
// When a comment that was presumed new is on record, its event is a duplicate and the transaction comes to nothing. The
// batch is decided again at once, with the keys read, and so are the next ones.
//
// When something that the lane remembered has changed, the batch is read and decided again at once, too.
//
// A conflict (another lane or replica was faster) means that nothing was written: the batch is read and decided
// again, from the second attempt on behind advisory locks on its titles. After three conflicts, or on any other
// refusal by the database, the batch is cut in halves, each in its own transaction, until a command that fails for
// its own reason stands alone with its own error and its neighbours have succeeded.
//
// When the answer to a commit is lost, the same loop finds out: every attempt has a batch id of its own, which its
// events carry in their metadata; the keys are read again, and events of an attempt whose answer was lost are our own
// success. The first command with such a key is answered as the delivery itself, any other as its retry. If the
// database stays away, the command fails with ErrOutcomeUnknown: repeating it with the same key is safe, before and
// after.
//
// Creations are paid for by permits that a batch takes once and keeps over its attempts. Each attempt says what it
// used; when it comes to nothing that is taken back, and when it turns out to have been committed it is charged
// again. A limiter that fails or does not answer within half of the batch's time fails the commands that create, not
// their neighbours.
//
// A comment is not tied to the version of its novel: one that was decided before staff rejected the title is stored,
// even if it is committed a moment after the rejection. An upsert conflicts with the rejection and is decided again.
//
// Close stops intake and returns when every accepted command is answered.
package committer
