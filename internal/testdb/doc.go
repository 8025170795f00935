// Package testdb gives each test its own PostgreSQL database, so that `go test ./...` needs no other set-up.
//
// The first test that needs a database starts one server for all test processes of this user. Its data is in memory
// (/dev/shm) if there is room and TMPDIR does not name another place, and fsync is off. The service refuses such a
// server; tests must not. Every database is copied from a template with the migrated schema, which takes about 10 ms.
//
// # Life of the server
//
// Test processes run in parallel and may be killed, so none of them owns the server. The owner is the holder: the first
// process starts its test binary again, detached. All servers of tests have their data in the directory
// novelgate-tests-UID. A test process holds a shared lock (flock) of the file "users" there for its life. When the last
// one has ended, the holder waits a few seconds, because `go test` may be about to start the next package, stops the
// server and deletes everything else in the directory. If the holder is killed, its server stops too, and the next
// holder deletes what it finds.
//
// # Another server
//
// With NOVELGATE_TEST_DATABASE_URL set to the URL of a maintenance database, tests use that server (PostgreSQL 15 or
// newer, a role with CREATEDB and CREATEROLE). Its templates are kept, named novelgate_template_<hash>; databases of
// killed tests are kept too, named novelgate_test_…. Set autovacuum to off there: its statistics keep samples of data,
// and some tests check that erased data is gone.
package testdb
