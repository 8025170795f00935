// Package eventlog is the event log on PostgreSQL: appending through watermill-sql's Publisher, reading by stream
// and in log order, and following the log as it grows.
//
// # Order
//
// Events are ordered by (transaction_id, position): the transaction that appended them, then the ordinal inside
// it. A reader only sees transactions below pg_snapshot_xmin(pg_current_snapshot()): every transaction with a
// smaller id has ended by then, so nothing can appear after a position that was already passed. Ordering by a
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
// Two writers that decided on the same state collide on events_stream_key: UNIQUE (stream_id, stream_version). So do
// two deliveries of one comment, whose stream_id derives from its key. Two deliveries of any other command collide on
// events_id_key: (event_id, event_source, integration_id). IsConflict recognises these and the lock time-outs and
// deadlocks that go with them. All of them mean: nothing was appended, read again and decide again.
//
// # Following the log
//
// Projections, the sealer of the ledger and streams of auditors follow the log with one loop, Follow. They differ in
// what they read and in what they do with it.
//
//   - Start. A turn begins with what the follower has stored: a position and the identity of the log beside it. Only
//     what is in the database counts, so a turn that fails is simply followed by another one.
//   - Reading. ReadRows and ReadChunk read settled events with one statement, which also tells the identity of the log
//     and whether a running transaction hides events. A FetchSize limits each read by events and by bytes.
//     Projections and the sealer read through a Tail, which reads and decodes the newest rows once for all of them. A
//     follower that is far behind reads by itself: a projection with ReadAhead, the sealer with ReadRows.
//   - Pacing. After a full read the next one comes at once. After n events it comes n × 2 ms later, up to Pace, so that
//     under load few large reads are made.
//   - Wake-up. Then a signal of Wake ends the wait: this process has committed an append, or another one has said so by
//     NOTIFY. Without a signal the log is read once a second. While a running transaction hides events, its end gives
//     no signal, so reads repeat after 1, 2, 4 … ms.
//   - Replicas. One is active, without an election: the transaction that stores progress takes the lock on the row
//     of the position, or fails, and compares the position with where the events began. A replica that does not get
//     the lock, or finds the position moved, ends the turn with ErrStandby, and looks at the position every 250 ms
//     until it stands still. So a replica takes over as soon from one that hangs as from one that has ended.
//   - Errors. Any other error ends the turn, too. The next one comes after 50 ms, then twice that, up to 5 s; after
//     ErrBlocked, which an operator must resolve, every second. The third failure in a row is logged as a warning.
//   - Identity. A read that finds another log than that of the position fails with ErrOtherLog before it hands out an
//     event. Stored progress is compared in the same way, in its own transaction. The next turn starts from what that
//     log has stored. A stream of an auditor ends instead; its cursors carry digests.
//
// The Subscriber makes a follower a Watermill Subscriber: one message is one chunk.
package eventlog
