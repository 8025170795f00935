// Package handover moves the right to append from the database of an origin to that of its mirror. See
// docs/promotion.md and docs/decisions/0027-promotion.md.
//
// # Invariants
//
//   - A database with a row in the table handover appends nothing, whoever asks: see Fence.
//   - The keys and the memory of an origin leave a database only after it is fenced, everything in its log is signed,
//     and the successor serves the final checkpoint.
//   - A mirror becomes the origin in one transaction. With a Token, its log is then exactly the tree of the final
//     checkpoint.
//
// # Failure
//
// Every step leaves a durable mark and can be repeated. A command that was killed continues from the mark.
package handover
