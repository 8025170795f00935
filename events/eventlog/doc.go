// Package eventlog is the event log on PostgreSQL: appending through watermill-sql's Publisher, reading by stream
// and in log order, and feeding watermill-sql's Subscriber.
//
// # Order
//
// Events are ordered by (transaction_id, position): the transaction that appended them, then the ordinal inside
// it. A reader only sees transactions below pg_snapshot_xmin(pg_current_snapshot()): every transaction with a
// smaller id has ended by then, so nothing can appear behind a position that was already passed. Ordering by a
// sequence would lose events that commit late.
//
// After a move to another cluster (see events/rebase) all events of before have the transaction id events.Frozen.
//
// For the order of the log to be the order of versions in every stream, an appending transaction makes the insert
// into events its first write, after all of its reads, and a retry is always a new transaction: the version that
// it builds on was committed before its own transaction id was assigned.
//
// # Conflicts
//
// Two writers that decided on the same state collide on UNIQUE (stream_id, stream_version); two deliveries of one
// command on UNIQUE (event_id, event_source). IsConflict recognises these and the lock time-outs and deadlocks that
// go with them. All of them mean: nothing was appended, read again and decide again.
package eventlog
