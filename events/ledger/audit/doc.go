// Package audit checks the event history without trust in the operator of the service. It exports the history to
// bundles, and verifies it against its ledger: in a bundle, in the database, or, entries only, over HTTP.
// docs/audit.md describes the format of a bundle: events, entries, hash tiles, checkpoint and keys.
//
// # Export
//
//   - A file is written under a temporary name and renamed after it is synced to disk, so a file with its final name is
//     complete, even after a crash of the machine. Entry bundles and tiles of the lowest level are the exception: they
//     have their final names at once, and are complete if the file of events of their chunk has its final name, because
//     that file is renamed after they are synced.
//   - Files of full chunks and full tiles never change; partial ones have their width in the name. So an interrupted
//     export continues, and a later export adds to a bundle, without reading the existing files.
//   - A first export writes the checkpoint before the entries that it covers, a later export after them. An export
//     refuses a directory whose checkpoint covers another history.
//   - The manifest is written last, after all directories are synced. Files beyond its size belong to an unfinished
//     export.
//   - An event is written with its stored bytes, without decoding.
//
// # Verification
//
// Verify hashes every entry again and builds the tree from the hashes. The tree must have the signed root, and at the
// size of each kept checkpoint the root of that checkpoint. Every event must match its entry. Hash tiles are not
// trusted: they only locate the changed entry when a root is wrong.
//
// Several goroutines check chunks, and the results are joined in order, so that faults are in log order. Memory holds a
// few chunks of 4096 events, some 40 bytes for each stream, 8 bytes for each event to find duplicates, and a count for
// each integration and each author with erased events that have no recorded erasure yet.
package audit
