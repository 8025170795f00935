package relaytest

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/cloudevent"
	"novelgate/events/ledger"
	"novelgate/events/relay"
	"novelgate/internal/testdb"
)

// Reader reads a stream from its beginning to its end.
type Reader struct {
	t        testing.TB
	ctx      context.Context //nolint:containedctx // it lives as long as a test reads the stream
	stream   jetstream.Stream
	messages jetstream.MessagesContext
	end      uint64 // last sequence of the stream when the reader was opened
	pending  uint64 // messages after the latest one, as far as the server of the consumer knows
	latest   jetstream.Msg
	at       uint64 // sequence of latest
}

// attemptTimeout limits one request to a cluster, which loses requests while it elects a leader.
const attemptTimeout = 10 * time.Second

// Open opens a stream for reading, once the cluster answers. The caller stops the reader.
func Open(ctx context.Context, t testing.TB, js jetstream.JetStream, name string) *Reader {
	t.Helper()
	r := &Reader{t: t, ctx: ctx}
	testdb.Eventually(t, "the cluster reads "+name, func() bool {
		ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
		defer cancel()
		var err error
		if r.stream, err = js.Stream(ctx, name); err != nil {
			return false
		}
		consumer, err := r.stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
		if err != nil {
			return false
		}
		r.messages, err = consumer.Messages()
		return err == nil
	})
	r.end, r.pending = r.stream.CachedInfo().State.LastSeq, r.stream.CachedInfo().State.Msgs
	return r
}

// Stop ends the reading.
func (r *Reader) Stop() { r.messages.Stop() }

// Next returns the next message and its sequence; nil at the end of the stream.
func (r *Reader) Next() (jetstream.Msg, uint64) {
	r.t.Helper()
	if r.pending == 0 && !r.isBehind() {
		return nil, 0
	}
	m, err := r.messages.Next(jetstream.NextContext(r.ctx))
	if err != nil {
		r.t.Fatal(err)
	}
	metadata, err := m.Metadata()
	if err != nil {
		r.t.Fatal(err)
	}
	r.latest, r.at, r.pending = m, metadata.Sequence.Stream, metadata.NumPending
	return m, r.at
}

// isBehind reports whether the leader of the stream has later messages. In a cluster, the consumer may be on another
// server, which gets them later.
func (r *Reader) isBehind() bool {
	r.t.Helper()
	for sequence := r.at + 1; sequence <= r.end; sequence++ {
		var err error
		testdb.Eventually(r.t, "the cluster answers", func() bool {
			ctx, cancel := context.WithTimeout(r.ctx, attemptTimeout)
			defer cancel()
			_, err = r.stream.GetMsg(ctx, sequence)
			return err == nil || errors.Is(err, jetstream.ErrMsgNotFound)
		})
		if err == nil {
			return true
		}
	}
	return false
}

// advanceTo returns the message with a sequence; nil if the stream does not have it.
func (r *Reader) advanceTo(sequence uint64) jetstream.Msg {
	r.t.Helper()
	for r.at < sequence {
		if m, _ := r.Next(); m == nil {
			return nil
		}
	}
	if r.at != sequence {
		return nil
	}
	return r.latest
}

// WantLog fails the test unless the streams of the current origin have exactly the sealed log of a database: the
// sequence is the log index plus one, the CloudEvent is that of the history without its personal part, and the personal
// part is the stored one. It returns the tree over the leaves in the messages.
func WantLog(t testing.TB, js jetstream.JetStream, pool *pgxpool.Pool) tlog.Tree {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testdb.SettleTimeout)
	defer cancel()
	sealed, err := ledger.ReadSealed(ctx, pool)
	if err != nil {
		t.Fatal(err)
	}
	main := Open(ctx, t, js, relay.StreamName(sealed.Origin()))
	defer main.Stop()
	personal := Open(ctx, t, js, relay.PersonalStreamName(sealed.Origin()))
	defer personal.Stop()
	edge := ledger.NewEdge()
	err = ledger.EachEvent(ctx, pool, 0, int(sealed.Size), sealed.Size, func(e *ledger.Event) error {
		m := main.advanceTo(uint64(e.LogIndex + 1)) //nolint:gosec // never negative
		if m == nil {
			t.Fatalf("the stream does not have log index %d of %d", e.LogIndex, sealed.Size)
		}
		want, err := cloudevent.Append(nil, &e.Row, cloudevent.Attributes{})
		if err != nil {
			return err
		}
		if got := string(m.Data()); got != string(want) {
			t.Fatalf("log index %d is\n%s\ninstead of\n%s", e.LogIndex, got, want)
		}
		if !strings.HasPrefix(m.Subject(), relay.MainPrefix) || !strings.HasSuffix(m.Subject(), "."+e.Type) {
			t.Fatalf("log index %d is published as %s", e.LogIndex, m.Subject())
		}
		leaf, err := base64.StdEncoding.DecodeString(m.Headers().Get(relay.LeafHeader))
		if err != nil || len(leaf) != tlog.HashSize {
			t.Fatalf("the leaf of log index %d: %v", e.LogIndex, err)
		}
		part := personal.advanceTo(uint64(e.LogIndex + 1)) //nolint:gosec // never negative
		switch {
		case e.PersonalDigest != nil && part != nil && len(part.Data()) > 0:
			t.Fatalf("log index %d was erased, and has %s", e.LogIndex, part.Data())
		case e.PersonalDigest == nil && part == nil:
			t.Fatalf("log index %d has no message in the personal stream", e.LogIndex)
		case e.PersonalDigest == nil && string(part.Data()) != string(e.Personal):
			t.Fatalf("the personal part of log index %d is %s instead of %s", e.LogIndex, part.Data(), e.Personal)
		}
		return edge.Push(tlog.Hash(leaf), 0, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Reader{main, personal} {
		if _, sequence := r.Next(); sequence > 0 {
			t.Fatalf("stream %s has sequence %d, and the log has %d events", r.stream.CachedInfo().Config.Name, sequence,
				sealed.Size)
		}
	}
	if edge.Size() != sealed.Size {
		t.Fatalf("%d of %d events were compared", edge.Size(), sealed.Size)
	}
	return tlog.Tree{N: edge.Size(), Hash: edge.Root()}
}
