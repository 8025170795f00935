// Package committer turns commands into events, many commands in one transaction (group commit).
//
// # Life of a batch
//
// A command joins the queue of a lane, chosen by its folded title, so that the commands on one novel keep their
// order. A lane takes what has queued up while its previous batch was in flight: there is no timer, so a lone
// command waits for nobody. For each batch the lane
//
//  1. loads the working state in one round trip: the titles, threads, keys and parents that the commands name
//     (a second one reads slugs, only when novels are going to be created);
//  2. decides the commands one after another on that state, each seeing the effects of those before it;
//  3. sends the append, the inline projections and the commit in one more round trip. The statements of a pgx
//     batch up to its one Sync are one transaction, whose first write is the append;
//  4. answers.
//
// # Failures
//
// A conflict (another lane or replica was faster) means that nothing was written: the batch is read and decided
// again, from the second attempt on behind advisory locks on its titles. After three conflicts, or on any other
// refusal by the database, the batch is cut in halves, each in its own transaction, until a command that fails for
// its own reason stands alone with its own error and its neighbours have succeeded.
//
// When the answer to a commit is lost, the same loop finds out: the keys are read again, and events that carry
// this batch's id in their metadata are our own success. If the database stays away, the command fails with
// ErrOutcomeUnknown: repeating it with the same key is safe, before and after.
//
// Close stops intake and returns when every accepted command is answered.
package committer
