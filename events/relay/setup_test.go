package relay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/events/ledger/ledgertest"
	"novelgate/events/relay"
	"novelgate/events/relay/relaytest"
	"novelgate/internal/testdb"
)

// bundle is a ledger and NATS.
type bundle struct {
	t testing.TB
	*ledgertest.Ledger

	nats *relaytest.Cluster
	js   jetstream.JetStream
	log  *testdb.Log
}

func setup(t testing.TB, servers int) *bundle {
	t.Helper()
	b := &bundle{t: t, Ledger: ledgertest.New(t), nats: relaytest.New(t, servers), log: &testdb.Log{}}
	_, b.js = b.nats.Connect()
	return b
}

// start runs a relay of a ledger; the returned function ends it and waits for that. The test's end does so, too.
func (b *bundle) start(of *ledgertest.Ledger, replicas int, metrics *relay.Metrics) (stop func()) {
	b.t.Helper()
	logger := b.log.Logger()
	conn := testdb.Must(relay.Connect(context.Background(), relay.Connection{URL: b.nats.URL(), Logger: logger}))(b.t)
	config := relay.Config{
		Database: of.Pool.Config().ConnConfig, Conn: conn, Replicas: replicas, Tail: tailOf(b.t, of.Pool),
		Metrics: metrics, Logger: logger,
	}
	r := testdb.Must(relay.New(config))(b.t)
	b.t.Cleanup(conn.Close)
	return testdb.Background(b.t, r.Run)
}

// tailOf returns a tail of the log in a database, with a connection that closes when the test ends.
func tailOf(t testing.TB, pool *pgxpool.Pool) *eventlog.Tail {
	t.Helper()
	tail := eventlog.NewTail(pool.Config().ConnConfig, 0)
	t.Cleanup(func() { tail.Close(context.Background()) })
	return tail
}

var (
	integrationID = uuid.UUID{7}
	novelID       = uuid.UUID{200, 1}
)

// comment is a comment of an author.
func comment(author, content string) events.Recorded {
	key := "key-" + uuid.NewString()
	return events.Recorded{
		StreamType: events.PostStream, StreamID: events.PostID(integrationID, key), StreamVersion: 1, ID: key,
		Source: events.PostsSource(integrationID),
		Event: events.PostImported{
			NovelID: novelID, ThreadID: events.ThreadID(novelID), WrittenAt: time.Unix(1, 0).UTC(),
			Comment: &events.Comment{ExternalUUID: author, Username: "name of " + author, Content: content},
		},
		Salt:     uuid.NullUUID{UUID: uuid.New(), Valid: true},
		Metadata: events.Metadata{Actor: events.IntegrationActor(integrationID)},
	}
}

// staffEvent is an event without a personal part.
func staffEvent(streamType string, stream uuid.UUID, version int, e events.Event) events.Recorded {
	return events.Recorded{
		StreamType: streamType, StreamID: stream, StreamVersion: version, ID: uuid.NewString(), Source: "staff", Event: e,
		Metadata: events.Metadata{Actor: "staff:ada"},
	}
}

// comments are comments of several authors with a few other events.
func comments(n int) []events.Recorded {
	recorded := make([]events.Recorded, n)
	for i := range recorded {
		recorded[i] = comment(fmt.Sprint("author-", i%7), fmt.Sprint("words of comment ", i))
		if i%5 == 3 {
			recorded[i] = staffEvent(events.NovelStream, uuid.New(), 1, events.NovelApproved{Reason: "r"})
		}
	}
	return recorded
}

// append appends events in one transaction.
func (b *bundle) append(recorded ...events.Recorded) {
	b.t.Helper()
	appendTo(b.t, b.Ledger, recorded...)
}

func appendTo(t testing.TB, of *ledgertest.Ledger, recorded ...events.Recorded) {
	t.Helper()
	var batch pgx.Batch
	testdb.NoError(t, eventlog.Queue(&batch, recorded))
	testdb.NoError(t, of.Pool.SendBatch(context.Background(), &batch).Close())
}

// last returns the last sequence of a stream; 0: it cannot be asked.
func (b *bundle) last(name string) uint64 {
	sequence, _ := b.ask(name)
	return sequence
}

// ask returns the last sequence of a stream. It fails if the cluster does not answer soon.
func (b *bundle) ask(name string) (uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	found, err := b.js.Stream(ctx, name)
	if err != nil {
		return 0, err
	}
	return found.CachedInfo().State.LastSeq, nil
}

// stored returns the last sequence of a stream, once the cluster answers; 0 without such a stream.
func (b *bundle) stored(name string) (sequence uint64) {
	b.t.Helper()
	testdb.Eventually(b.t, "the cluster knows "+name, func() bool {
		var err error
		sequence, err = b.ask(name)
		return err == nil || errors.Is(err, jetstream.ErrStreamNotFound)
	})
	return sequence
}

// awaitRelayed waits until the main stream has all events of the log.
func (b *bundle) awaitRelayed() {
	b.t.Helper()
	want := testdb.Value[int64](b.t, b.Pool, `SELECT count(*) FROM events`)
	testdb.Eventually(b.t, fmt.Sprint(want, " events are relayed"), func() bool {
		return b.last(relay.StreamName(ledgertest.Origin)) == uint64(want)
	})
}

// awaitLog waits until something is logged.
func (b *bundle) awaitLog(text string) {
	b.t.Helper()
	testdb.Eventually(b.t, "the log says "+text, func() bool { return strings.Contains(b.log.String(), text) })
}

// messages reads a stream from its beginning, by sequence.
func (b *bundle) messages(name string) map[uint64]jetstream.Msg {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testdb.Patience)
	defer cancel()
	reader := relaytest.Open(ctx, b.t, b.js, name)
	defer reader.Stop()
	list := map[uint64]jetstream.Msg{}
	for m, sequence := reader.Next(); m != nil; m, sequence = reader.Next() {
		list[sequence] = m
	}
	return list
}

// wantAll fails the test unless the streams have exactly the log.
func (b *bundle) wantAll() {
	b.t.Helper()
	relaytest.WantLog(b.t, b.js, b.Pool)
}
