// Package e2e has only tests. They run the service as its users meet it: the built program as a process, HTTP requests,
// and the command line, on a real PostgreSQL.
//
// Most tests share one server that may lose commits, and many of them one service. They are written from the documents:
// every exchange that passes through Service.Send is held against docs/openapi.yaml.
//
// The tests in chaos_*_test.go break things under load, on servers of their own with fsync on, and look at what is
// left. They hold the service to these promises:
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
// The chaos tests that measure time run one after another, before all others, which run in parallel. With -short, and
// so under the race detector, which slows everything down, chaos tests are skipped: see brittle.
//
// The set-up kit is in kit_*_test.go.
package e2e
