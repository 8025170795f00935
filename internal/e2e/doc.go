// Package e2e has only tests. They run the service as users see it: the built program as a process, HTTP requests, and
// the command line, on a real PostgreSQL.
//
// Most tests share one PostgreSQL, with fsync off, and many share one service. Service.Send also tests the description
// of the interface: it compares every request and answer with docs/openapi.yaml.
//
// The tests in chaos_*_test.go break things under load, on their own servers with fsync on, and check the result. They
// test these promises:
//
//   - Every acknowledged command is recorded exactly once, with the identifiers in its answer. A command without an
//     answer is recorded once or not at all. A retry with its key shows which.
//   - Log indexes and the versions of a stream are contiguous, in the order of commits.
//   - Every read model equals a replay of the log through the same projections into an empty database.
//   - An erasure that is killed leaves each event erased or untouched. The next one completes it, and the ledger
//     verifies.
//   - While the database is down, each request gets 503 within two seconds; afterwards everything recovers by itself.
//   - Logs, metrics and errors contain no API key and no word of a comment.
//
// make chaos, with the build tag chaos, breaks the whole installation of deploy/cluster: PostgreSQL under Patroni,
// etcd, HAProxy, NATS and replicas of the service.
//
// The chaos tests that measure time run one after another. All others run in parallel after them. make race runs the
// tests with -short, which skips chaos tests and long scenarios: see testdb.SkipShort.
//
// The set-up kit is in kit_*_test.go.
package e2e
