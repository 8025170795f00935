// Package testdb gives each test a PostgreSQL database of its own, so that `go test ./...` needs no other set-up.
//
// The first test that asks for a database starts one server for all test processes of this user. Its data lies in
// memory (/dev/shm) where there is room, and fsync is off: the service refuses such a server, and tests must not. Every
// database is cloned from a template that holds the migrated schema, which takes about 10 ms.
//
// # Life of the server
//
// Test processes come and go in parallel, and may be killed. So none of them owns the server: a holder does, the test
// binary of the first process started once more, detached. Each test process holds a shared lock on a file; the holder
// waits for the exclusive one, which the kernel grants when the last test process has ended, however it ended. It then
// lingers for a few seconds, because `go test` may be about to start the next package, stops the server and deletes the
// data. If the holder is killed, its server goes down with it, and the next holder deletes the data.
//
//	start    exclusive lock of a process that joins, so that only one starts a holder
//	users    shared lock of every test process; exclusive lock of a holder that shuts down
//	holder   exclusive lock of the holder
//	url      address of the server; written by the holder
//	log      what the holder prints
//
// # A server of your own
//
// With NOVELGATE_TEST_DATABASE_URL set to the URL of a maintenance database, tests use that server (PostgreSQL 15 or
// newer, a role with CREATEDB and CREATEROLE). Templates stay there, named novelgate_template_<hash>; databases of
// tests that were killed stay too, named novelgate_test_…. Set autovacuum to off there: its statistics keep samples of
// what some tests erase and then look for.
package testdb
