package relaytest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/eventlog"
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
	m := testdb.Must(r.messages.Next(jetstream.NextContext(r.ctx)))(r.t)
	metadata := testdb.Must(m.Metadata())(r.t)
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

// WantLog fails the test unless the streams of the current origin have exactly the log of a database: the sequence is
// the log index plus one, the CloudEvent is that of the history without its personal part, and the personal part is the
// stored one. It returns the tree over the leaves in the messages.
func WantLog(t testing.TB, js jetstream.JetStream, pool *pgxpool.Pool) tlog.Tree {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testdb.Patience)
	defer cancel()
	origin := testdb.Value[string](t, pool, `SELECT origin FROM ledger_origins ORDER BY ordinal DESC LIMIT 1`)
	main := Open(ctx, t, js, relay.StreamName(origin))
	defer main.Stop()
	personal := Open(ctx, t, js, relay.PersonalStreamName(origin))
	defer personal.Stop()
	edge := ledger.NewEdge()
	for row, err := range eventlog.Rows(ctx, pool, `SELECT `+eventlog.Columns+` FROM events ORDER BY log_index`) {
		if err != nil {
			t.Fatal(err)
		}
		sequence := uint64(row.LogIndex + 1) //nolint:gosec // never negative
		if row.LogIndex != edge.Size() {
			t.Fatalf("the log has index %d after %d events", row.LogIndex, edge.Size())
		}
		leaf := wantMessage(t, row, main.advanceTo(sequence), personal.advanceTo(sequence))
		testdb.NoError(t, edge.Push(leaf, 0, nil))
	}
	for _, r := range []*Reader{main, personal} {
		if _, sequence := r.Next(); sequence > 0 {
			t.Fatalf("stream %s has sequence %d, and the log has %d events", r.stream.CachedInfo().Config.Name, sequence,
				edge.Size())
		}
	}
	return edge.Tree()
}

// wantMessage fails the test unless the messages of both streams are those of an event. It returns the leaf in main.
func wantMessage(t testing.TB, row *eventlog.Row, main, personal jetstream.Msg) tlog.Hash {
	t.Helper()
	if main == nil {
		t.Fatalf("the stream does not have log index %d", row.LogIndex)
	}
	want := testdb.Must(eventlog.AppendCloudEvent(nil, row, "", nil))(t)
	if got := string(main.Data()); got != string(want) {
		t.Fatalf("log index %d is\n%s\ninstead of\n%s", row.LogIndex, got, want)
	}
	if !strings.HasPrefix(main.Subject(), relay.MainPrefix) || !strings.HasSuffix(main.Subject(), "."+row.Type) {
		t.Fatalf("log index %d is published as %s", row.LogIndex, main.Subject())
	}
	leaf := testdb.Must(tlog.ParseHash(main.Headers().Get(relay.LeafHeader)))(t)
	switch {
	case row.PersonalDigest != nil && personal != nil && len(personal.Data()) > 0:
		t.Fatalf("log index %d was erased, and has %s", row.LogIndex, personal.Data())
	case row.PersonalDigest == nil && personal == nil:
		t.Fatalf("log index %d has no message in the personal stream", row.LogIndex)
	case row.PersonalDigest == nil && string(personal.Data()) != string(row.Personal):
		t.Fatalf("the personal part of log index %d is %s instead of %s", row.LogIndex, personal.Data(), row.Personal)
	}
	return leaf
}
