// Package verify checks an event history against its ledger: in a bundle, in the database, or, entries only, over HTTP.
//
// Every entry is hashed anew, and the tree is grown from the hashes: its root must be the signed one, and at the sizes
// of checkpoints that were kept, theirs. Every event must be the one that its entry commits to. Hash tiles decide
// nothing: they tell which entry was changed when a root is wrong.
//
// Chunks are checked on several goroutines and joined in order, so that the first fault is the first one in the log.
// Memory is that of a few chunks of 4096 events, some 40 bytes for each stream, 8 bytes for each event, to find one
// that is there twice, and a number for each integration and each author whose erased events have no erasure on record
// behind them yet.
package verify
