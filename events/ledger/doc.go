// Package ledger makes the event log tamper-evident: a Merkle tree (RFC 6962) over it, which anyone can check
// without trust in the operator of the service. docs/ledger.md has every format.
//
// # Parts
//
// The Sealer walks the settled order of the log (see eventlog), gives every event a dense log index, and grows the
// tree in the layout of C2SP tlog-tiles. The Signer signs checkpoints (C2SP tlog-checkpoint) over sizes that are
// sealed. The Publisher hands signed checkpoints to places outside the database, and to each Witness, which cosigns
// them. Store reads what they have written: tiles, entry bundles, checkpoints, inclusion proofs.
//
// # Invariants
//
//   - Log indexes are 0, 1, 2, … in log order. An event's is the first of its transaction plus its position.
//   - A leaf commits to everything in an event but transaction_id and position. It holds a digest of personal and salt
//     in their place, so that erasing those two breaks no proof.
//   - What is stored of the tree is only ever added to. A seal is one transaction that holds the row of ledger_state
//     and finds it where the seal begins; the database refuses a tree that shrinks or forks.
//   - An origin is signed through one memory outside of the database, which has each checkpoint before the database
//     does: it knows all that anybody can have seen.
//   - A checkpoint is signed only over a tree that is committed, and only if that tree provably extends
//     the last checkpoint in the database and the one in the memory.
//   - What was published in a directory is evidence: no checkpoint in it is replaced by another one, and none is added
//     that does not provably extend the newest one there.
//   - A cosignature is stored only if it is of the witness's key on exactly that checkpoint.
//
// # Failure
//
// A sealer that dies, at whatever point, has sealed its last transaction or not. The next one reads state and tiles,
// checks that they belong together, and goes on. Two sealers exclude each other by the row of ledger_state; who finds
// it taken or moved stands by.
//
// What a seal does can be done again from the log and gives the same bytes, so its commit does not wait for the disk.
// That of a checkpoint does, and with it everything that it was signed over.
package ledger
