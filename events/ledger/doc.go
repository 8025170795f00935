// Package ledger makes the event log tamper-evident: a Merkle tree (RFC 6962) over it, which anyone can check without
// trust in the operator of the service. docs/auditors.md has every format.
//
// # Parts
//
// The Sealer follows the log (see eventlog) and grows the tree in the layout of C2SP tlog-tiles. The Signer signs
// checkpoints (C2SP tlog-checkpoint) over sealed sizes. Each Witness is asked to cosign the newest one. Store reads
// the results: tiles, entry bundles, checkpoints, inclusion proofs.
//
// # Invariants
//
//   - Leaf i is the event with log index i. A leaf commits to everything in its event except the index, which its place
//     in the tree shows. It has a digest in place of personal and salt, so that erasing these two breaks no proof.
//   - The stored tree only grows. A seal is one transaction that locks the row of ledger_state, and fails unless this
//     row has the tree on which the seal builds, and the log has the last event of the seal. The database refuses a
//     tree that shrinks or has two roots at one size.
//   - All checkpoints of an origin are signed by the holder of one signer directory, which the origin names. A note is
//     on disk there first, so the directory knows every checkpoint that may be public.
//   - A checkpoint is signed only over a committed tree, and only if that tree provably extends the last checkpoint in
//     the database and the last note in the directory.
//   - A cosignature is stored only if it verifies with the witness's key for exactly that checkpoint.
//
// # Failure
//
// If a sealer dies, its last transaction is committed or not. The next sealer reads state and tiles, checks that they
// match, and continues. Two sealers exclude each other by the row of ledger_state; the one that finds it locked or
// moved stands by.
//
// A seal can be repeated from the log and gives the same bytes, so its commit does not wait for the disk. The commit of
// a checkpoint waits for the disk; then all that the checkpoint covers is on disk, too.
package ledger
