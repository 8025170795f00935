package relay_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"novelgate/events"
	"novelgate/events/ledger/ledgertest"
	"novelgate/events/relay"
	"novelgate/internal/testdb"
)

const searchSchema = `CREATE TABLE comments (post_id uuid PRIMARY KEY, author_id uuid, content text, hidden boolean DEFAULT false);
CREATE TABLE applied (sequence bigint); INSERT INTO applied VALUES (0)`

// follow keeps a table of comments, for a search, until ctx ends or an error occurs; after an error call it again.
func follow(ctx context.Context, js jetstream.JetStream, db *pgx.Conn, origin string) error {
	personal, err := js.Stream(ctx, relay.PersonalStreamName(origin))
	if err != nil {
		return err
	}
	var sequence uint64 // of the last applied message
	if err := db.QueryRow(ctx, `SELECT sequence FROM applied`).Scan(&sequence); err != nil {
		return err
	}
	consumer, err := js.OrderedConsumer(ctx, relay.StreamName(origin), jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: sequence + 1,
		FilterSubjects: []string{"novelgate.v1.*.post.>", "novelgate.v1.*.author.erased.>"},
	})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		metadata, err := m.Metadata()
		if err != nil {
			return err
		}
		sequence = metadata.Sequence.Stream
		var event struct {
			Type     string
			StreamID uuid.UUID
		}
		if err := json.Unmarshal(m.Data(), &event); err != nil {
			return err
		}
		// The effect of a message and its sequence are stored together, so a restart repeats none and leaves none out.
		err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			switch event.Type {
			case "post.imported.v1":
				// The personal part is stored before the event, so a missing message means that it was erased.
				var comment struct{ Content string }
				found, err := personal.GetMsg(ctx, sequence)
				if errors.Is(err, jetstream.ErrMsgNotFound) {
					break
				}
				if err == nil {
					err = json.Unmarshal(found.Data, &comment)
				}
				if err != nil {
					return err
				}
				// author.erased.v1 names the author by this id.
				author := found.Header.Get("Novelgate-Author")
				if _, err := tx.Exec(ctx, `INSERT INTO comments (post_id, author_id, content) VALUES ($1, $2, $3)`, event.StreamID,
					author, comment.Content); err != nil {
					return err
				}
			case "post.hidden.v1", "post.restored.v1":
				if _, err := tx.Exec(ctx, `UPDATE comments SET hidden = $2 WHERE post_id = $1`, event.StreamID,
					event.Type == "post.hidden.v1"); err != nil {
					return err
				}
			case "author.erased.v1":
				if _, err := tx.Exec(ctx, `DELETE FROM comments WHERE author_id = $1`, event.StreamID); err != nil {
					return err
				}
			}
			_, err := tx.Exec(ctx, `UPDATE applied SET sequence = $1`, sequence)
			return err
		})
		if err != nil {
			return err
		}
	}
}

// A consumer of the streams.
func Example() {
	conn, err := nats.Connect("nats://nats.example.org", nats.UserInfo("search", "…"))
	if err != nil {
		return
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return
	}
	db, err := pgx.Connect(context.Background(), "postgres:///search")
	if err != nil {
		return
	}
	_ = follow(context.Background(), js, db, "host/ledger/8f14e45f")
}

// TestExample: the table is right after restarts, a moderation and an erasure.
func TestExample(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	db := testdb.Connect(t, testdb.NewEmpty(t))
	testdb.Exec(t, db, searchSchema)
	hidden := comment("ada", "a hidden remark")
	for i, step := range []struct {
		recorded []events.Recorded
		want     string
	}{
		{
			[]events.Recorded{hidden, comment("ada", "dragons"), comment("eve", "more")},
			"a hidden remark f, dragons f, more f",
		},
		{[]events.Recorded{
			comment("bob", "the last"), staffEvent(events.PostStream, hidden.StreamID, 2, events.PostHidden{Reason: "r"}),
		}, "a hidden remark t, dragons f, more f, the last f"},
		{
			[]events.Recorded{record("eve"), comment("bob", "behind it")},
			"a hidden remark t, behind it f, dragons f, the last f",
		},
	} {
		b.append(step.recorded...)
		b.relayOnce()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- follow(ctx, b.js, db, ledgertest.Origin) }()
		reader := testdb.Connect(t, db.Config().ConnString())
		testdb.Eventually(t, "the table has "+step.want, func() bool {
			return testdb.Value[string](t, reader,
				`SELECT coalesce(string_agg(concat_ws(' ', content, hidden), ', ' ORDER BY content), '') FROM comments`) == step.want
		})
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("step %d ended with %v", i, err)
		}
		db = testdb.Connect(t, db.Config().ConnString()) // a cancelled statement closes its connection
	}
}
