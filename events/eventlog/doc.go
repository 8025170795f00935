// Package eventlog is the event log on PostgreSQL: appending through watermill-sql's Publisher, reading by stream and
// in log order, and following the log as it grows.
//
// # Order
//
// The log has one order: log_index 0, 1, 2, …, without gaps, in the order of commits. It is the primary key of the
// table. Every snapshot has exactly the indexes 0 … n-1, so a reader reads on from the last index that it has seen, and
// nothing can appear before it.
//
// A transaction that appends takes the lock of the log first and holds it to its end: see Lock and Under. What is read
// after the lock stays true until the commit. A Breaker ends a holder whose client is stopped. A writer that ignores
// the lock fails on the primary key.
//
// # Positions
//
// A position in the same database is a number, events.Position. It moves with the log in one write-ahead log, through
// every failover and restore. A position elsewhere is a Mark: whoever continues from it reads the event before it, too,
// and if this is absent or another one, starts from what is stored, or refuses. A transaction that stores what was
// computed from events checks the mark of their end (see HasMarkSQL), and that the stored position is where they began.
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
//   - Start. A turn begins with the stored progress of the follower, a position. No progress is only in memory, so
//     after a failed turn the next one simply starts again.
//   - Reading. ReadRows and ReadChunk read with one statement and check that the indexes follow one another. A
//     FetchSize limits each read by events and by bytes. Projections, sealer and relay read through a Tail, which reads
//     and decodes the newest rows once for all of them. A follower that is far behind reads by itself.
//   - Pacing. After a full read the next one follows at once. After n events it follows n × 2 ms later at the
//     earliest, up to Pace, so that reads under load are few and large.
//   - Wake-up. A signal of Wake ends the wait: this process has committed an append, or a NOTIFY reports one of
//     another process. Without a signal the log is read once a second.
//   - Replicas. One is active, without an election. The transaction that stores progress locks the row of the
//     position, or fails, and compares the stored position with the one after which the events were read. A replica
//     that does not get the lock, or finds another position, ends the turn with ErrStandby. It checks the position
//     about every 250 ms until the position stops moving. So a replica takes over from one that hangs as soon as from
//     one that has ended. The relay holds an advisory lock instead.
//   - Errors. Any other error ends the turn, too. The next turn follows after 50 ms, then twice that, up to 5 s; after
//     ErrBlocked, which staff or a replica of another version must resolve, every second. From the third consecutive
//     failure on, warnings are logged.
//   - Another log. Reads fail with ErrOtherLog if the log does not have the mark from which they go on. The
//     transaction that stores progress checks the mark of the end. The next turn starts from the progress stored in the
//     log that it finds.
//
// The Subscriber makes a follower a Watermill Subscriber: one message is one chunk.
package eventlog
