// Package verify checks an event history against its ledger: in a bundle, in the database, or, entries only, over HTTP.
//
// It hashes every entry again and builds the tree from the hashes. The root must be the signed one, and at the sizes of
// kept checkpoints the roots must be theirs. Every event must match its entry. Hash tiles are not trusted; they only
// locate the changed entry when a root is wrong.
//
// Several goroutines check chunks, and the results are joined in order, so that faults are in log order. Memory holds a
// few chunks of 4096 events, some 40 bytes for each stream, 8 bytes for each event to find duplicates, and a count for
// each integration and each author with erased events that have no recorded erasure yet.
package verify
