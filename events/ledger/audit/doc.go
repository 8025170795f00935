// Package audit checks the event history without trust in the operator of the service. It exports the history to
// bundles, and verifies it against its ledger, in a bundle or in the database. Over HTTP it verifies the entries alone,
// without the events. docs/auditors.md describes the format of a bundle: manifest, events, entries, hash tiles,
// checkpoint and keys. A chunk is 4096 events, the content of one file of events.
//
// # Export
//
//   - A file is written under a temporary name and renamed after it is synced to disk, so a file with its final name is
//     complete, even after a crash of the machine. Entry bundles and tiles of the lowest level are the exception: they
//     are written under their final names. The file of events of their chunk is renamed only after they are synced, so
//     they are complete if that file has its final name.
//   - Files of full chunks and full tiles never change; partial ones have their width in the name. So an interrupted
//     export continues, and a later export adds to a bundle, without reading the existing files.
//   - A first export writes the checkpoint before the entries that it covers, because an export refuses a directory
//     whose checkpoint covers another history. A later export replaces it after the entries, so that the bundle can be
//     verified meanwhile.
//   - The manifest is written last, after all directories are synced. Files beyond the size of the tree in it belong to
//     an unfinished export.
//   - An event is written with its stored bytes, without decoding.
//
// # Verification
//
// Verify hashes every entry again and builds the tree from the hashes. Its root must be the signed one. For each
// checkpoint that the auditor has kept, the tree of as many entries must have its root. Every event must match its
// entry. Hash tiles are not trusted: they only locate the changed entry when a root is wrong.
//
// Several goroutines check chunks, and the results are joined in order, so that faults are in log order. Memory holds a
// few chunks, some 40 bytes for each stream, and 8 bytes for each event to find duplicates. Erased events come before
// the event that records their erasure; until it comes, Verify counts them for each integration and author.
package audit
