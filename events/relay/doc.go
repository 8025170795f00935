// Package relay copies the sealed events of the log to NATS JetStream, for consumers outside of the database.
// docs/events.md is their documentation.
//
// # Invariants
//
//   - A stream belongs to one origin of the ledger, and the sequence of a message is the log index of its event plus
//     one. JetStream assigns the sequences 1, 2, 3, … and refuses a batch unless the last sequence of the stream is
//     the one that the batch expects. So each event is in the stream once, whatever fails and however many relays run.
//   - Sequence, subject and payload follow from the log alone, so a lost stream can be published again. The main stream
//     is then identical; in the personal one, erased parts are empty messages.
//   - A second stream has the personal part of each event, at the same sequence; an empty message where there is none.
//     It is stored before the message in the main stream. Erasure deletes messages there; the main stream has no gaps.
//   - By the time author.erased is in the main stream, the personal messages that it erases have been deleted.
//
// # Position
//
// A Relay is a follower of the log (see eventlog.Follow). It stores nothing: its position is the last sequence of the
// streams. It works in turns: a turn starts at this position and publishes until the first error. At its start it reads
// the position from the leaders of the streams, and compares the last messages with the ledger. If they differ, the
// stream has another history, or the database was set back by a failover or a restore. Then the relay stops with a
// RefusedError that names the log index. It never overwrites.
//
// # Replicas
//
// One relay of a database is active: it holds an advisory lock on the connection with which it reads. The others try
// to get the lock four times a second.
//
// # Mirrors
//
// A Source reads the streams for a mirror, see events/mirror. Beside the CloudEvent, a message has what the leaf of its
// event is computed from: the fingerprint in the main stream, the salt in the personal one.
package relay
