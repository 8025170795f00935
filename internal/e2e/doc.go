// Package e2e has only tests. They run the service as users see it: the built program as a process, HTTP requests, and
// the command line, on a real PostgreSQL.
//
// Most tests share one server that may lose commits, and many share one service. They test the documents: Service.Send
// compares every request and answer with docs/openapi.yaml.
//
// The tests in chaos_*_test.go break things under load, on their own servers with fsync on, and check the result. They
// test these promises:
//
//   - Every acknowledged command is recorded exactly once, with the identifiers in its answer. A command without an
//     answer is recorded once or not at all. A retry with its key shows which.
//   - Versions of a stream are contiguous and in log order.
//   - Every read model equals a replay of the log through the same projections into an empty database, and the
//     reference model, which shares no code with them.
//   - A killed erasure has erased whole transactions and no event in part; the next one completes it, and the ledger
//     verifies.
//   - While the database is down, each request gets 503 within two seconds; afterwards everything recovers by itself.
//   - Logs, metrics and errors contain no API key and no word of a comment.
//
// The chaos tests that measure time run one after another, before all others, which run in parallel. -short skips chaos
// tests and long scenarios, also under the race detector, which slows everything down: see testdb.SkipShort.
//
// The set-up kit is in kit_*_test.go.
package e2e
