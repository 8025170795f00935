// Package bundle writes the event history to a directory that can be verified anywhere, without the service: events,
// entries, hash tiles, checkpoint and keys. docs/audit.md describes the format.
//
// # Invariants
//
//   - A file is written under a temporary name and renamed when it is on the disk: what has its name is whole, also
//     after a crash of the machine. Entry bundles and tiles of the lowest level are the exception: the file of events
//     of their chunk vouches for them, as it gets its name when they are on the disk, too.
//   - Files of full chunks and full tiles never change; partial ones carry their width in their name. So an export that
//     was interrupted goes on, and a later one adds to a bundle, without reading what is there.
//   - The checkpoint is written before everything that it covers in a first export, and after that in a later one. No
//     export adds to a directory whose checkpoint covers another history.
//   - The manifest is written last, when all names are on the disk. What lies beyond its size belongs to an export that
//     has not ended.
//   - An event is written with the bytes that are stored, decoded by nobody.
package bundle
