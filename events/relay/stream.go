package relay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"novelgate/events/handover"
	"novelgate/events/ledger"
)

// Prefixes of the subjects in the two streams. After the prefix come the partition and the type of the event.
const (
	MainPrefix     = "novelgate.v1."
	PersonalPrefix = "novelgate.personal.v1."
)

// Keys in the metadata of a stream: its origin; id and time of the latest promotion of the service that publishes; the
// public URL of this service.
const (
	originMetadata    = "novelgate-origin"
	promotionMetadata = "novelgate-promotion"
	timeMetadata      = "novelgate-promoted-at"
	urlMetadata       = "novelgate-promoted-url"
)

// Promotion is the promotion of a mirror that publishes to the streams since then.
type Promotion struct {
	ID  uuid.UUID
	At  time.Time // zero if unknown
	URL string    // public URL of the promoted service; "" if unknown
}

// Replaces reports whether the promotion replaces a log with the known promotions; false for nil. See
// handover.Successor.
func (p *Promotion) Replaces(known []handover.Promotion) bool {
	return p != nil && handover.Successor(known, []handover.Promotion{{ID: p.ID, PromotedAt: p.At}}) != nil
}

// FindPromotion reads the promotion in the metadata of the main stream of an origin; nil without a promotion or a
// stream.
func FindPromotion(ctx context.Context, conn *nats.Conn, origin string) (*Promotion, error) {
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	found, err := js.Stream(ctx, StreamName(origin))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", StreamName(origin), err)
	}
	return promotionOf(&found.CachedInfo().Config)
}

// promotionOf reads the promotion in the metadata of a stream; nil without one.
func promotionOf(config *jetstream.StreamConfig) (*Promotion, error) {
	id, at := config.Metadata[promotionMetadata], config.Metadata[timeMetadata]
	if id == "" {
		return nil, nil
	}
	p := Promotion{URL: config.Metadata[urlMetadata]}
	var err error
	if p.ID, err = uuid.Parse(id); err == nil && at != "" {
		p.At, err = time.Parse(time.RFC3339Nano, at)
	}
	if err != nil {
		return nil, fmt.Errorf("promotion in the metadata of %s: %w", config.Name, err)
	}
	return &p, nil
}

// mark writes the latest promotion of this database into the configuration of a stream, and reports whether that
// changed it. The caller sends the configuration to the servers. mark fails with a RefusedError if the promotion in the
// configuration replaces this database: another service continues the log.
func (r *Relay) mark(ctx context.Context, config *jetstream.StreamConfig) (changed bool, err error) {
	found, err := promotionOf(config)
	if err != nil {
		return false, err
	}
	known, err := handover.Known(ctx, r.db)
	if err != nil {
		return false, err
	}
	if found.Replaces(known) {
		return false, &RefusedError{
			Stream: config.Name, LogIndex: -1, reason: fmt.Sprintf("another service was promoted (%s) and publishes", found.URL),
		}
	}
	last, err := handover.Latest(ctx, r.db)
	if err != nil || last == nil || found != nil && found.ID == last.ID {
		return false, err
	}
	config.Metadata = maps.Clone(config.Metadata)
	config.Metadata[promotionMetadata], config.Metadata[urlMetadata] = last.ID.String(), r.config.PublicURL
	config.Metadata[timeMetadata] = last.PromotedAt.Format(time.RFC3339Nano)
	return true, nil
}

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

// open opens a stream of the current origin, or creates it, and reads its last sequence. It fails with a RefusedError
// if its configuration is unsuitable (see differs), if another service continues the log (see mark), or if a stream of
// another ledger has its subjects (see retire).
func (r *Relay) open(
	ctx context.Context, configure func(origin string) jetstream.StreamConfig, sealed ledger.Sealed,
) (*stream, error) {
	want := configure(sealed.Origin())
	want.Retention, want.Storage, want.Discard = jetstream.LimitsPolicy, jetstream.FileStorage, jetstream.DiscardNew
	want.Replicas, want.AllowAtomicPublish = r.config.Replicas, true
	want.Metadata = map[string]string{originMetadata: sealed.Origin()}
	found, err := r.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err := r.retire(ctx, &want, configure, sealed.Origins); err != nil {
			return nil, err
		}
		found, err = r.js.CreateStream(ctx, want)
	}
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", want.Name, err)
	}
	info := found.CachedInfo()
	marked := info.Config
	changed, err := r.mark(ctx, &marked)
	if err != nil {
		return nil, err
	}
	if reason := differs(&info.Config, &want); reason != "" {
		return nil, &RefusedError{Stream: want.Name, LogIndex: -1, reason: reason}
	}
	if changed {
		if found, err = r.js.UpdateStream(ctx, marked); err != nil {
			return nil, fmt.Errorf("mark stream %s: %w", want.Name, err)
		}
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
		found.MaxMsgs > 0, found.MaxBytes > 0, found.MaxMsgsPerSubject > 0:
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
		if _, err := r.mark(ctx, &config); err != nil {
			return err
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

var errAck = errors.New("the server stored a batch at other sequences than expected")

// publish stores the events of list that the stream does not have yet, in atomic batches.
func (s *stream) publish(
	ctx context.Context, js jetstream.JetStream, list []message, part func(*message) *nats.Msg,
) error {
	stored := min(max(s.logIndex()-list[0].index, 0), int64(len(list)))
	for batch := range slices.Chunk(list[stored:], batchLimit) {
		if err := s.publishBatch(ctx, js, batch, part); err != nil {
			return err
		}
	}
	return nil
}

// publishBatch stores events as one atomic batch. The server refuses the batch unless the stream ends with sequence
// s.last. After an error the outcome is unknown; the next turn reads the last sequence again.
func (s *stream) publishBatch(
	ctx context.Context, js jetstream.JetStream, list []message, part func(*message) *nats.Msg,
) error {
	batch := make([]*nats.Msg, len(list))
	for i := range list {
		batch[i] = part(&list[i])
		batch[i].Subject = s.prefix + list[i].subject
		batch[i].Header.Set(LeafHeader, list[i].leaf)
	}
	batch[0].Header.Set(jetstream.ExpectedStreamHeader, s.name)
	batch[0].Header.Set(jetstream.ExpectedLastSeqHeader, fmt.Sprint(s.last))
	ctx, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	ack, err := jetstreamext.PublishMsgBatch(ctx, js, batch)
	if err != nil {
		return fmt.Errorf("publish %d events from log index %d to %s: %w", len(batch), s.last, s.name, err)
	}
	end := s.last + uint64(len(batch))
	if ack.Stream != s.name || ack.Sequence != end {
		return fmt.Errorf("%w: %s/%d instead of %s/%d", errAck, ack.Stream, ack.Sequence, s.name, end)
	}
	s.last = end
	return nil
}
