// Package relay copies the sealed events of the log to NATS JetStream, for consumers outside of the database.
// docs/events.md describes the streams for them.
//
// # Invariants
//
//   - A stream belongs to one origin of the ledger, and the sequence of a message is the log index of its event plus
//     one. JetStream assigns the sequences 1, 2, 3, … and refuses a batch unless the last sequence of the stream is
//     the one that the batch expects. So each event is in the stream once, whatever fails and however many relays run.
//   - Sequence, subject and payload depend only on the log, so a lost stream can be published again. The main stream
//     is then identical; in the personal stream, erased parts are empty messages.
//   - The personal stream has the personal part of each event, at the same sequence; an empty message if there is none.
//     The relay stores it before the message in the main stream. Erasure deletes messages of the personal stream; the
//     main stream has no gaps.
//   - Before the relay publishes author.erased to the main stream, it deletes the personal messages that this event
//     erases.
//
// # Position
//
// A Relay is a follower of the log (see eventlog.Follow). It stores nothing: its position is the last sequence of the
// streams. It works in turns. A turn reads this position from the leaders of the streams, compares the last messages
// with the ledger, and publishes until the first error. If the messages differ, the stream has another history, or the
// database was set back by a failover or a restore. Then the turn fails with a RefusedError that names the log index.
// The relay never overwrites.
//
// # Replicas
//
// One relay of a database is active: it holds an advisory lock on the connection with which it reads. The others try
// to get the lock three or four times a second.
//
// # Mirrors
//
// A Source reads the streams for a mirror, see events/mirror. The leaf of an event is computed from the CloudEvent, the
// personal part, the fingerprint (a header in the main stream) and the salt (a header in the personal stream).
package relay
