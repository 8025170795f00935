// Package eventlog is the event log on PostgreSQL: appending through watermill-sql's Publisher, reading by stream and
// in log order, and following the log as it grows.
//
// # Order
//
// Events are ordered by (transaction_id, position): the transaction that appended them, then the ordinal inside it. A
// reader in log order only sees transactions below pg_snapshot_xmin(pg_current_snapshot()). Every transaction with a
// smaller id has ended, so no event can appear before a position that a reader has passed. Ordering by a sequence would
// lose events that commit late.
//
// After a move to another cluster (see events/rebase) all earlier events have the transaction id events.Frozen.
//
// Log order must be version order in every stream. So an appending transaction reads first, its first write is the
// insert into events, and a retry is always a new transaction: the version on which the insert builds was committed
// before the transaction got its id.
//
// # Lock
//
// A transaction that appends takes the lock of the log first and holds it to its end: see Lock and Under. What is read
// after the lock stays true until the commit. A Breaker ends a holder whose client is stopped.
//
// # Conflicts
//
// Two writers that decided on the same state collide on events_stream_key: UNIQUE (stream_id, stream_version). So do
// two deliveries of one comment, whose stream_id derives from its key. Two deliveries of any other command collide on
// events_id_key: (event_id, event_source, integration_id). IsConflict recognises these, and lock time-outs and
// deadlocks between writers. All of them mean: nothing was appended, read again and decide again.
//
// # Following the log
//
// Projections, the sealer of the ledger, the relay, and streams of auditors and partners follow the log with one loop,
// Follow. They differ in what they read and in how they apply it.
//
//   - Start. A turn begins with the stored progress of the follower, a position, and the identity of the log. No
//     progress is only in memory, so after a failed turn the next one simply starts again.
//   - Reading. ReadRows and ReadChunk read settled events with one statement, which also returns the identity of the
//     log and whether a running transaction hides events. A FetchSize limits each read by events and by bytes.
//     Projections, sealer and relay read through a Tail, which reads and decodes the newest rows once for all of them.
//     A follower that is far behind reads by itself: a projection with ReadAhead, the sealer with ReadRows.
//   - Pacing. After a full read the next one follows at once. After n events it follows n × 2 ms later at the
//     earliest, up to Pace, so that reads under load are few and large.
//   - Wake-up. A signal of Wake ends the wait: this process has committed an append, or a NOTIFY reports one of
//     another process. Without a signal the log is read once a second. While a running transaction hides events, its
//     end gives no signal, so reads repeat after 1, 2, 4 … ms.
//   - Replicas. One is active, without an election. The transaction that stores progress locks the row of the
//     position, or fails, and compares the stored position with the one after which the events were read. A replica
//     that does not get the lock, or finds another position, ends the turn with ErrStandby. It checks the position
//     about every 250 ms until the position stops moving. So a replica takes over from one that hangs as soon as from
//     one that has ended. The relay holds an advisory lock instead.
//   - Errors. Any other error ends the turn, too. The next turn follows after 50 ms, then twice that, up to 5 s; after
//     ErrBlocked, which staff or a replica of another version must resolve, every second. From the third consecutive
//     failure on, warnings are logged.
//   - Identity. ReadRows and a Tail fail with ErrOtherLog, before they return an event, if the log is not that of the
//     position. The transaction that stores progress compares the identity, too. The next turn starts from the
//     progress stored in the new log. A stream of an auditor checks its cursor, which has a digest of the last event,
//     with each read, and ends if the log does not match.
//
// The Subscriber makes a follower a Watermill Subscriber: one message is one chunk.
package eventlog
