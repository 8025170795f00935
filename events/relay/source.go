package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"novelgate/events/cloudevent"
	"novelgate/events/ledger"
	"novelgate/events/ledger/audit"
)

// Source is an audit.Source that reads the events of a service from the streams of its relay. Checkpoints, hash tiles
// and entries come from the public ledger of the service; a caller who verifies the events with them need not trust the
// streams. It is for one goroutine.
type Source struct {
	*audit.Service

	js      jetstream.JetStream
	origin  string   // of the newest checkpoint
	streams *streams // nil: not open
}

// NewSource returns the source for a connection; see Connect.
func NewSource(conn *nats.Conn, service *audit.Service) (*Source, error) {
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(natsTimeout))
	if err != nil {
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	return &Source{Service: service, js: js}, nil
}

// Checkpoint implements audit.Source. The origin of the checkpoint names the streams.
func (s *Source) Checkpoint(ctx context.Context) ([]byte, error) {
	signed, err := s.Service.Checkpoint(ctx)
	if err != nil {
		return nil, err
	}
	if c, err := ledger.ParseCheckpoint(signed); err == nil { // the caller verifies the checkpoint
		s.origin = c.Origin
	}
	return signed, nil
}

const (
	sourceBytes = 8 << 20 // of messages, after which a call of Events stops reading
	// followWait is the longest wait for a message, except for the first event of a call: natsTimeout.
	followWait = 100 * time.Millisecond
)

var errNotYet = errors.New("the stream does not have it yet")

// Events implements audit.Source. It returns fewer events than count if they are large, or not all in the stream yet.
// A gap in the main stream is a ledger.ErrNotFound. An event without a message in the personal stream has no personal
// part, like an erased event.
func (s *Source) Events(ctx context.Context, first int64, count int, _ int64) (list []ledger.Event, err error) {
	if s.streams != nil && (s.streams.next != first || s.streams.origin != s.origin) {
		s.Close()
	}
	if s.streams == nil {
		if s.streams, err = openStreams(ctx, s.js, s.origin, first); err != nil {
			return nil, err
		}
	}
	if list, err = s.streams.read(ctx, count); err != nil {
		s.Close()
	}
	return list, err
}

// Close ends the reading of the streams. A later call of Events begins again.
func (s *Source) Close() {
	if s.streams != nil {
		s.streams.close()
		s.streams = nil
	}
}

// streams reads the two streams of an origin from a log index on.
type streams struct {
	origin         string
	next           int64 // log index
	main, personal *reader
}

func openStreams(ctx context.Context, js jetstream.JetStream, origin string, first int64) (s *streams, err error) {
	s = &streams{origin: origin, next: first}
	if s.main, err = openReader(ctx, js, StreamName(origin), first); err != nil {
		return nil, err
	}
	if s.personal, err = openReader(ctx, js, PersonalStreamName(origin), first); err != nil {
		s.main.messages.Stop()
		return nil, err
	}
	return s, nil
}

func (s *streams) close() {
	s.main.messages.Stop()
	s.personal.messages.Stop()
}

// read returns at most count events, and at least one.
func (s *streams) read(ctx context.Context, count int) ([]ledger.Event, error) {
	var list []ledger.Event
	var sequences []uint64
	for size, wait := 0, natsTimeout; len(list) < count && size < sourceBytes; wait = followWait {
		sequence := uint64(s.next) + uint64(len(list)) + 1 //nolint:gosec // never negative
		m, err := s.main.message(ctx, sequence, wait)
		if err == nil && m == nil {
			err = ledger.ErrNotFound
		}
		if err != nil && (len(list) == 0 || ctx.Err() != nil) {
			return nil, fmt.Errorf("event of log index %d in %s: %w", s.next, s.main.name, err)
		}
		if err != nil {
			break // the next call returns the error if it lasts
		}
		list, sequences, size = append(list, parse(m)), append(sequences, sequence), size+len(m.Data())
	}
	parts, err := s.personal.parts(ctx, sequences)
	if err != nil {
		return nil, err
	}
	for i := range list {
		parts[i].addTo(&list[i])
	}
	s.next += int64(len(list))
	return list, nil
}

var errOldMessage = errors.New("an older version published its message, without the header " + FingerprintHeader +
	": begin with a bundle that has the event")

// parse returns the event of a message of the main stream, without its personal part.
func parse(m jetstream.Msg) ledger.Event {
	e := ledger.Event{}
	fingerprint := m.Headers()[FingerprintHeader]
	e.Row, e.LogIndex, e.Broken = cloudevent.Parse(m.Data())
	switch {
	case e.Broken != nil:
	case len(fingerprint) == 0:
		e.Broken = errOldMessage
	case fingerprint[0] != "":
		e.Broken = e.Metadata.Fingerprint.UnmarshalText([]byte(fingerprint[0]))
	}
	return e
}

// receivedPart is a message of the personal stream; nil if it was deleted.
type receivedPart struct {
	header nats.Header
	data   []byte
}

// addTo adds the personal part to an event.
func (p *receivedPart) addTo(e *ledger.Event) {
	if p == nil || e.Broken != nil {
		return
	}
	if len(p.data) > 0 {
		e.Personal = p.data
	}
	if salt := p.header.Get(SaltHeader); salt != "" {
		id, err := uuid.Parse(salt)
		if err != nil {
			e.Broken = fmt.Errorf("read the salt: %w", err)
		}
		e.Salt = uuid.NullUUID{UUID: id, Valid: true}
	}
}

// reader reads the messages of a stream in order.
type reader struct {
	jetstream.Stream

	name     string
	messages jetstream.MessagesContext
	latest   jetstream.Msg // latest received message
	at       uint64        // sequence of latest
}

const (
	heartbeat         = 2 * time.Second // after two missed ones the consumer is replaced: its server has died
	inactiveThreshold = time.Minute     // without a reader; the servers then remove its consumer
)

// openReader opens a stream for reading from the message of a log index on.
func openReader(ctx context.Context, js jetstream.JetStream, name string, first int64) (*reader, error) {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", name, err)
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: uint64(first) + 1, //nolint:gosec // a log index
		InactiveThreshold: inactiveThreshold, MaxResetAttempts: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", name, err)
	}
	messages, err := consumer.Messages(jetstream.PullHeartbeat(heartbeat))
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", name, err)
	}
	return &reader{Stream: stream, name: name, messages: messages}, nil
}

// message returns the message with a sequence; nil if the stream has only a later one. It fails with errNotYet if
// neither comes in time. The sequence must not be lower than in the call before.
func (r *reader) message(ctx context.Context, sequence uint64, wait time.Duration) (jetstream.Msg, error) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for r.at < sequence {
		m, err := r.messages.Next(jetstream.NextContext(waiting))
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return nil, errNotYet
		}
		if err != nil {
			return nil, fmt.Errorf("read stream %s: %w", r.name, err)
		}
		metadata, err := m.Metadata()
		if err != nil {
			return nil, fmt.Errorf("read stream %s: %w", r.name, err)
		}
		r.latest, r.at = m, metadata.Sequence.Stream
	}
	if r.at > sequence {
		return nil, nil // no message is a result
	}
	return r.latest, nil
}

// parts returns the messages with these sequences; nil for a deleted one. The relay has stored them, because it
// publishes to the main stream later. What the consumer does not deliver at once is read from the leader of the
// stream: only the leader knows that a message is deleted.
func (r *reader) parts(ctx context.Context, sequences []uint64) ([]*receivedPart, error) {
	parts := make([]*receivedPart, len(sequences))
	missing, err := r.receive(ctx, sequences, parts)
	if err != nil {
		return nil, err
	}
	missing, err = r.get(ctx, sequences, missing, parts)
	if err != nil || len(missing) == 0 {
		return parts, err
	}
	// A stream that has lost its newest messages lacks them, too, until the relay publishes them again. If the stream is
	// complete now, another read finds them, except the deleted ones.
	info, err := r.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", r.name, err)
	}
	if last := sequences[len(sequences)-1]; info.State.LastSeq < last {
		return nil, fmt.Errorf("message %d of %s: %w", last, r.name, errNotYet)
	}
	_, err = r.get(ctx, sequences, missing, parts)
	return parts, err
}

// receive stores the messages that the consumer delivers at once in parts. It returns the indexes of the others.
func (r *reader) receive(ctx context.Context, sequences []uint64, parts []*receivedPart) (missing []int, err error) {
	late := false
	for i, sequence := range sequences {
		var m jetstream.Msg
		if !late {
			m, err = r.message(ctx, sequence, followWait)
			if late = errors.Is(err, errNotYet); err != nil && !late {
				return nil, err
			}
		}
		if m == nil {
			missing = append(missing, i)
			continue
		}
		parts[i] = &receivedPart{m.Headers(), m.Data()}
	}
	return missing, nil
}

// concurrentGets limits the messages that are read from a leader at a time.
const concurrentGets = 16

// get reads the messages at some indexes of sequences from the leader of the stream into parts. It returns the indexes
// of the messages that the leader does not have.
func (r *reader) get(
	ctx context.Context, sequences []uint64, indexes []int, parts []*receivedPart,
) (missing []int, err error) {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(concurrentGets)
	for _, i := range indexes {
		group.Go(func() error {
			m, err := r.GetMsg(groupCtx, sequences[i])
			switch {
			case err == nil:
				parts[i] = &receivedPart{m.Header, m.Data}
			case !errors.Is(err, jetstream.ErrMsgNotFound):
				return fmt.Errorf("read message %d of %s: %w", sequences[i], r.name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err // wrapped above
	}
	for _, i := range indexes {
		if parts[i] == nil {
			missing = append(missing, i)
		}
	}
	return missing, nil
}
