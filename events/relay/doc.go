// Package relay copies the log to NATS JetStream, for consumers outside of the database. docs/events.md describes the
// streams for them.
//
// # Streams
//
// Each origin of the ledger has two streams: the main stream has the events without their personal parts, and the
// personal stream has these parts.
//
// # Invariants
//
//   - The sequence of a message is the log index of its event plus one. JetStream assigns the sequences 1, 2, 3, … and
//     refuses a batch unless the last sequence of the stream is the one that the batch expects. So each event is in a
//     stream once, whatever fails and however many relays run.
//   - The personal stream has a message for each event, at the same sequence: the personal part, or an empty message if
//     there is none. The relay stores it before the message in the main stream.
//   - An event is published only when it survives a failover to a synchronous standby.
//   - Erasure deletes messages of the personal stream, so this stream may have gaps. Nothing is deleted from the main
//     stream. Before the relay publishes author.erased to the main stream, it deletes the personal messages that this
//     event erases.
//   - Sequence, subject and payload depend only on the log, so the relay can publish a lost stream again. The main
//     stream is then identical. In the personal stream, an erased part is then an empty message instead of a gap.
//
// # Position
//
// A Relay is a follower of the log (see eventlog.Follow). It stores nothing: its position is the last sequence of the
// streams. It works in turns. A turn reads this position from the leaders of the streams, compares the last messages
// with the log, and publishes until the first error. If the messages differ, the turn fails with a RefusedError that
// names the log index: the stream has another history, or a failover or a restore has set the database back. The relay
// never overwrites.
//
// # Replicas
//
// One relay of a database is active: it holds an advisory lock on a connection, and before it publishes it checks there
// that the log has what the Tail has read. The others try to get the lock three or four times a second.
package relay
