// Package chaos breaks things under load and looks at what is left. The tests run the real binary on a real PostgreSQL
// with fsync on: kill -9 of the service and of the database, a database that has gone silent, two replicas that race, a
// drain, an event that cannot be applied.
//
// They hold the service to these promises:
//
//   - Every acknowledged command is on record exactly once, with the identifiers that were answered. A command without
//     an answer is on record once or not at all. A retry with its key tells which.
//   - Versions of a stream are contiguous and in log order.
//   - Every read model equals a replay of the log through the same projections into an empty database, and the
//     reference model, which shares no code with them.
//   - An erasure that is killed has erased whole transactions and no event by half; the next one completes it, and the
//     ledger verifies.
//   - While the database is away, each request is answered with 503 within two seconds; then everything recovers by
//     itself.
//   - No API key and no word of a comment is in a log, a metric or an error.
//
// The tests that measure time run one after another, before the others, which run in parallel.
package chaos
