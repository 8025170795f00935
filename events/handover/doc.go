// Package handover moves the right to append from the database of an origin to that of its mirror. See
// docs/promotion.md and docs/decisions/0027-promotion.md.
//
// # Invariants
//
//   - A database with a row in the table handover, the fence, refuses appends of every process: see fence.go.
//   - The keys and the memory of an origin leave it only after its database is fenced, everything in its log is signed,
//     and the successor serves the final checkpoint.
//   - A mirror becomes the origin in one transaction. With a Token, its log is then exactly the tree of the final
//     checkpoint.
//
// # Failure
//
// Every step is durable and can be repeated. After a kill, the same command continues after the last completed step.
package handover
