// Package bundle writes the event history to a directory that can be verified anywhere, without the service: events,
// entries, hash tiles, checkpoint and keys. docs/audit.md describes the format.
//
// # Invariants
//
//   - A file is written under a temporary name and renamed after it is synced to disk, so a file with its final name is
//     complete, even after a crash of the machine. Entry bundles and tiles of the lowest level are the exception: they
//     are complete if the file of events of their chunk has its final name, because it is renamed after they are
//     synced.
//   - Files of full chunks and full tiles never change; partial ones have their width in the name. So an interrupted
//     export continues, and a later export adds to a bundle, without reading the existing files.
//   - A first export writes the checkpoint before the entries that it covers, a later export after them. An export
//     refuses a directory whose checkpoint covers another history.
//   - The manifest is written last, after all directories are synced. Files beyond its size belong to an unfinished
//     export.
//   - An event is written with its stored bytes, without decoding.
package bundle
