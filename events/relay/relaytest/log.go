package relaytest

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/cloudevent"
	"novelgate/events/ledger"
	"novelgate/events/relay"
	"novelgate/internal/testdb"
)

// iterator reads a stream from its beginning to its end.
type iterator struct {
	t        testing.TB
	ctx      context.Context //nolint:containedctx // it lives as long as a call of WantLog
	messages jetstream.MessagesContext
	message  jetstream.Msg
	at       uint64 // sequence of message
	pending  uint64 // messages after it
}

func iterate(ctx context.Context, t testing.TB, js jetstream.JetStream, name string) *iterator {
	t.Helper()
	i := &iterator{t: t, ctx: ctx}
	testdb.Eventually(t, "the cluster reads "+name, func() (ok bool) {
		stream, err := js.Stream(ctx, name)
		if err != nil {
			return false
		}
		i.pending = stream.CachedInfo().State.Msgs
		consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
		if err != nil {
			return false
		}
		i.messages, err = consumer.Messages()
		return err == nil
	})
	return i
}

// advanceTo returns the message with a sequence; nil if the stream does not have it.
func (i *iterator) advanceTo(sequence uint64) jetstream.Msg {
	i.t.Helper()
	for i.at < sequence && i.pending > 0 {
		var err error
		if i.message, err = i.messages.Next(jetstream.NextContext(i.ctx)); err != nil {
			i.t.Fatal(err)
		}
		metadata, err := i.message.Metadata()
		if err != nil {
			i.t.Fatal(err)
		}
		i.at, i.pending = metadata.Sequence.Stream, metadata.NumPending
	}
	if i.at != sequence {
		return nil
	}
	return i.message
}

// WantLog fails the test unless the streams of the current origin have exactly the sealed log of a database: the
// sequence is the log index plus one, the CloudEvent is that of the history without its personal part, and the personal
// part is the stored one. It returns the tree over the leaves in the messages.
func WantLog(t testing.TB, js jetstream.JetStream, pool *pgxpool.Pool) tlog.Tree {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testdb.UntilSettled)
	defer cancel()
	sealed, err := ledger.ReadSealed(ctx, pool)
	if err != nil {
		t.Fatal(err)
	}
	main := iterate(ctx, t, js, relay.StreamName(sealed.Origin()))
	defer main.messages.Stop()
	personal := iterate(ctx, t, js, relay.PersonalStreamName(sealed.Origin()))
	defer personal.messages.Stop()
	edge := ledger.NewEdge()
	err = ledger.EachEvent(ctx, pool, 0, int(sealed.Size), sealed.Size, func(e *ledger.Event) error {
		m := main.advanceTo(uint64(e.LogIndex + 1)) //nolint:gosec // never negative
		if m == nil {
			t.Fatalf("the stream does not have log index %d of %d", e.LogIndex, sealed.Size)
		}
		want, err := cloudevent.Append(nil, &e.Row, cloudevent.Attributes{LogIndex: &e.LogIndex})
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
	if main.pending > 0 || personal.pending > 0 || edge.Size() != sealed.Size {
		t.Fatalf("the streams have %d and %d messages behind the %d events of the log", main.pending, personal.pending,
			sealed.Size)
	}
	return tlog.Tree{N: edge.Size(), Hash: edge.Root()}
}
