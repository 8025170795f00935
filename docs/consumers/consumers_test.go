package consumers_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"novelgate/docs/consumers"
	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/events/ledger/ledgertest"
	"novelgate/events/relay"
	"novelgate/events/relay/relaytest"
	"novelgate/internal/testdb"
)

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }

// consumer runs one of the consumers until the returned function is called.
type consumer func(t *testing.T, nats *relaytest.Cluster, js jetstream.JetStream, table *consumers.Table) (stop func())

func TestConsumers(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]consumer{"nats.go": follow, "Watermill": route} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantTable(t, start)
		})
	}
}

// wantTable runs a consumer. It has the same table at the end as one that was never restarted: comments of an erased
// author are gone, and what is hidden is marked.
func wantTable(t *testing.T, start consumer) {
	t.Helper()
	l, nats := ledgertest.New(t), relaytest.New(t, 1)
	_, js := nats.Connect()
	conn, err := relay.Connect(t.Context(), relay.Connection{URL: nats.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	r, err := relay.New(relay.Config{Database: l.Pool.Config().ConnConfig, Conn: conn, Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	testdb.Background(t, r.Run)

	pool := testdb.Pool(t, testdb.NewEmpty(t))
	testdb.Exec(t, pool, consumers.Schema)
	table := &consumers.Table{Pool: pool}
	testdb.Eventually(t, "the relay has made its streams", func() bool {
		table.Personal, err = js.Stream(t.Context(), relay.PersonalStreamName(ledgertest.Origin))
		return err == nil
	})

	hidden := comment("ada", "a hidden remark")
	write(t, l.Pool, hidden, comment("ada", "some dragons"), comment("eve", "more dragons"))
	stop := start(t, nats, js, table)
	awaitWords(t, pool, "dragons", 2)
	write(t, l.Pool, comment("bob", "dragons again"))
	awaitWords(t, pool, "dragons", 3)
	stop()

	write(t, l.Pool, comment("bob", "the last dragons"), staffEvent(events.PostStream, hidden.StreamID, 2,
		events.PostHidden{Reason: "r"}))
	stop = start(t, nats, js, table)
	awaitWords(t, pool, "dragons", 4)
	testdb.Eventually(t, "the remark is hidden", func() bool {
		return testdb.Value[bool](t, pool, `SELECT hidden FROM search_comments WHERE post_id = $1`, hidden.StreamID)
	})
	write(t, l.Pool, staffEvent(events.AuthorStream, events.AuthorID(integrationID, "eve"), 1, events.AuthorErased{
		IntegrationID: integrationID, Reason: "r",
	}), comment("bob", "behind it"))
	awaitWords(t, pool, "behind", 1)
	awaitWords(t, pool, "dragons", 3)
	stop()
	if n := testdb.Value[int64](t, pool, `SELECT sequence FROM search_position`); n != 8 {
		t.Errorf("the table is at sequence %d", n)
	}
}

func follow(t *testing.T, _ *relaytest.Cluster, js jetstream.JetStream, table *consumers.Table) (stop func()) {
	t.Helper()
	return testdb.Background(t, func(ctx context.Context) {
		for ctx.Err() == nil {
			if err := consumers.Follow(ctx, js, relay.StreamName(ledgertest.Origin), table); ctx.Err() == nil {
				t.Errorf("the consumer has ended: %v", err)
				return
			}
		}
	})
}

func route(t *testing.T, nats *relaytest.Cluster, _ jetstream.JetStream, table *consumers.Table) (stop func()) {
	t.Helper()
	conn, _ := nats.Connect() // each router closes its own
	router, err := consumers.Router(conn, relay.StreamName(ledgertest.Origin), "search", table, watermill.NopLogger{})
	if err != nil {
		t.Fatal(err)
	}
	return testdb.Background(t, func(ctx context.Context) {
		if err := router.Run(ctx); err != nil {
			t.Errorf("the router has ended: %v", err)
		}
	})
}

func awaitWords(t *testing.T, pool *pgxpool.Pool, word string, want int64) {
	t.Helper()
	testdb.Eventually(t, word+" is found", func() bool {
		return testdb.Value[int64](t, pool, `SELECT count(*) FROM search_comments WHERE words @@ to_tsquery('simple', $1)`,
			word) == want
	})
}

var integrationID = uuid.UUID{7}

func comment(author, content string) events.Recorded {
	key := uuid.NewString()
	return events.Recorded{
		StreamType: events.PostStream, StreamID: events.PostID(integrationID, key), StreamVersion: 1, ID: key,
		Source: events.PostsSource(integrationID),
		Event: events.PostImported{
			NovelID: uuid.UUID{1}, WrittenAt: time.Unix(1, 0).UTC(),
			Comment: &events.Comment{ExternalUUID: author, Username: author, Content: content},
		},
		Salt:     uuid.NullUUID{UUID: uuid.New(), Valid: true},
		Metadata: events.Metadata{Actor: events.IntegrationActor(integrationID)},
	}
}

func staffEvent(streamType string, stream uuid.UUID, version int, e events.Event) events.Recorded {
	return events.Recorded{
		StreamType: streamType, StreamID: stream, StreamVersion: version, ID: uuid.NewString(), Source: "staff", Event: e,
		Metadata: events.Metadata{Actor: "staff:ada"},
	}
}

// write appends events.
func write(t *testing.T, pool *pgxpool.Pool, recorded ...events.Recorded) {
	t.Helper()
	var batch pgx.Batch
	if err := eventlog.Queue(&batch, recorded); err != nil {
		t.Fatal(err)
	}
	if err := pool.SendBatch(t.Context(), &batch).Close(); err != nil {
		t.Fatal(err)
	}
}
