package relay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

// Prefixes of the subjects in the two streams. After the prefix come the partition and the type of the event.
const (
	MainPrefix     = "novelgate.v1."
	PersonalPrefix = "novelgate.personal.v1."
)

// originMetadata is the key of the origin in the metadata of a stream.
const originMetadata = "novelgate-origin"

// StreamName returns the name of the main stream of an origin. It has a hash of the origin, because origins have
// characters that stream names must not have.
func StreamName(origin string) string {
	const digits = 16
	sum := sha256.Sum256([]byte(origin))
	return "novelgate-" + hex.EncodeToString(sum[:])[:digits]
}

// PersonalStreamName returns the name of the stream with the personal parts of an origin.
func PersonalStreamName(origin string) string { return StreamName(origin) + "-personal" }

func mainConfig(origin string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: StreamName(origin), Description: "Events of the ledger " + origin, Subjects: []string{MainPrefix + ">"},
		DenyDelete: true, DenyPurge: true,
	}
}

func personalConfig(origin string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: PersonalStreamName(origin), Description: "Personal parts of the events of the ledger " + origin,
		Subjects: []string{PersonalPrefix + ">"},
	}
}

// stream is one of the two streams.
type stream struct {
	jetstream.Stream
	name   string
	prefix string // of its subjects
	last   uint64 // sequence of the last message
}

// logIndex returns the log index of the next message.
func (s *stream) logIndex() int64 { return int64(s.last) } //nolint:gosec // a sequence

// open opens a stream of the current origin, which is the first one, or creates it, and reads its last sequence. It
// fails with a RefusedError if its configuration is unsuitable (see differs), or if a stream of another ledger has its
// subjects (see retire).
func (r *Relay) open(
	ctx context.Context, configure func(origin string) jetstream.StreamConfig, origins []string,
) (*stream, error) {
	want := configure(origins[0])
	want.Retention, want.Storage, want.Discard = jetstream.LimitsPolicy, jetstream.FileStorage, jetstream.DiscardNew
	want.Replicas, want.AllowAtomicPublish = r.config.Replicas, true
	want.Metadata = map[string]string{originMetadata: origins[0]}
	found, err := r.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err := r.retire(ctx, &want, configure, origins); err != nil {
			return nil, err
		}
		found, err = r.js.CreateStream(ctx, want)
	}
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", want.Name, err)
	}
	info := found.CachedInfo()
	if reason := differs(&info.Config, &want); reason != "" {
		return nil, &RefusedError{Stream: want.Name, LogIndex: -1, reason: reason}
	}
	return &stream{
		Stream: found, name: want.Name, prefix: strings.TrimSuffix(want.Subjects[0], ">"), last: info.State.LastSeq,
	}, nil
}

// differs returns how the configuration of a stream differs from the wanted one; "" if it is suitable. Operators may
// choose the number of replicas, placement and compression.
func differs(found, want *jetstream.StreamConfig) string {
	switch {
	case found.Metadata[originMetadata] != want.Metadata[originMetadata]:
		return fmt.Sprintf("it belongs to %q", found.Metadata[originMetadata])
	case !slices.Equal(found.Subjects, want.Subjects), found.SubjectTransform != nil, found.Mirror != nil,
		len(found.Sources) > 0:
		return "it takes other messages than those of " + want.Subjects[0]
	case found.Retention != want.Retention, found.Storage != want.Storage, found.Sealed, found.MaxAge > 0,
		found.MaxMsgs > 0, found.MaxBytes > 0, found.MaxMsgsPerSubject > 0, found.MaxMsgSize > 0:
		return "it does not keep all messages in files"
	case found.DenyDelete != want.DenyDelete, found.DenyPurge != want.DenyPurge, found.AllowDirect,
		!found.AllowAtomicPublish:
		return "deny_delete, deny_purge, allow_direct or allow_atomic differs from what the relay needs"
	}
	return ""
}

// retire removes the subjects of a new stream from the streams of former origins, which keep their messages. It fails
// with a RefusedError if a stream of another ledger has the subjects.
func (r *Relay) retire(
	ctx context.Context, want *jetstream.StreamConfig, configure func(string) jetstream.StreamConfig, origins []string,
) error {
	subjects := want.Subjects[0]
	names := r.js.StreamNames(ctx, jetstream.WithStreamListSubject(subjects))
	for name := range names.Name() {
		if name == want.Name {
			continue // another relay has created it meanwhile
		}
		found, err := r.js.Stream(ctx, name)
		if err != nil {
			return fmt.Errorf("open stream %s: %w", name, err)
		}
		config := found.CachedInfo().Config
		origin := config.Metadata[originMetadata]
		if !slices.Contains(origins, origin) || configure(origin).Name != name {
			return &RefusedError{
				Stream: name, LogIndex: -1, reason: fmt.Sprintf("it takes %s and belongs to %q", subjects, origin),
			}
		}
		config.Subjects = []string{name}
		if _, err := r.js.UpdateStream(ctx, config); err != nil {
			return fmt.Errorf("retire stream %s: %w", name, err)
		}
	}
	if err := names.Err(); err != nil {
		return fmt.Errorf("find the streams of %s: %w", subjects, err)
	}
	return nil
}

// wireSize returns the size of a message as servers compare it with their max_payload.
func wireSize(m *nats.Msg) int64 {
	const ofBatch = 160 // upper limit of what PublishMsgBatch adds, with the line before the headers and that after them
	size := len(m.Data) + ofBatch
	for name, values := range m.Header {
		for _, value := range values {
			size += len(name) + len(": ") + len(value) + len("\r\n")
		}
	}
	return int64(size)
}

var errAck = errors.New("the server stored a batch at other sequences than expected")

// publish stores the events of list that the stream does not have yet, in atomic batches. The server refuses a batch
// unless the stream ends with sequence s.last. After an error the outcome is unknown; the next turn reads the last
// sequence again.
func (s *stream) publish(
	ctx context.Context, js jetstream.JetStream, list []message, part func(*message) *nats.Msg,
) error {
	stored := min(max(s.logIndex()-list[0].row.LogIndex, 0), int64(len(list)))
	for messages := range slices.Chunk(list[stored:], batchLimit) {
		batch := make([]*nats.Msg, len(messages))
		for i := range messages {
			batch[i] = part(&messages[i])
			batch[i].Subject = s.prefix + messages[i].subject
			batch[i].Header.Set(LeafHeader, messages[i].leaf)
			if size, limit := wireSize(batch[i]), js.Conn().MaxPayload(); size > limit {
				return &RefusedError{
					Stream: s.name, LogIndex: messages[i].row.LogIndex, tooLarge: true, reason: fmt.Sprintf(
						"it is a message of %d bytes, and the NATS servers take %d: set max_payload to %[1]d or more", size, limit),
				}
			}
		}
		batch[0].Header.Set(jetstream.ExpectedStreamHeader, s.name)
		batch[0].Header.Set(jetstream.ExpectedLastSeqHeader, fmt.Sprint(s.last))
		ctx, cancel := context.WithTimeout(ctx, natsTimeout)
		ack, err := jetstreamext.PublishMsgBatch(ctx, js, batch)
		cancel()
		if err != nil {
			return fmt.Errorf("publish %d events from log index %d to %s: %w", len(batch), s.last, s.name, err)
		}
		end := s.last + uint64(len(batch))
		if ack.Stream != s.name || ack.Sequence != end {
			return fmt.Errorf("%w: %s/%d instead of %s/%d", errAck, ack.Stream, ack.Sequence, s.name, end)
		}
		s.last = end
	}
	return nil
}
