package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
)

func setup(
	t *testing.T, config eventlog.SubscriptionConfig,
) (*pgxpool.Pool, *eventlog.Subscription, <-chan *message.Message) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), testdb.New(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	config.DB = eventlog.OpenPolls(pool.Config().ConnConfig, 1)
	config.Logger = slog.New(slog.DiscardHandler)
	t.Cleanup(func() { _ = config.DB.Close() })
	subscription, err := eventlog.NewSubscription(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = subscription.Close() })
	messages, err := subscription.Subscribe(context.Background(), eventlog.Topic)
	if err != nil {
		t.Fatal(err)
	}
	return pool, subscription, messages
}

// appendThreads appends events in one transaction, and returns their ids.
func appendThreads(t *testing.T, pool *pgxpool.Pool, prefix string, n int) []string {
	t.Helper()
	recorded, ids := make([]events.Recorded, n), make([]string, n)
	for i := range recorded {
		ids[i] = fmt.Sprintf("%s-%d", prefix, i)
		recorded[i] = events.Recorded{
			StreamType: events.ThreadStream, StreamID: uuid.New(), StreamVersion: 1, ID: ids[i], Source: "test",
			Event: events.ThreadOpened{NovelID: uuid.New()},
		}
	}
	var batch pgx.Batch
	if err := eventlog.Queue(&batch, recorded); err != nil {
		t.Fatal(err)
	}
	if err := pool.SendBatch(context.Background(), &batch).Close(); err != nil {
		t.Fatal(err)
	}
	return ids
}

func receive(t *testing.T, messages <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case m := <-messages:
		return m
	case <-time.After(testdb.UntilSettled):
		t.Fatalf("no message within %v", testdb.UntilSettled)
		return nil
	}
}

func batchOf(t *testing.T, s *eventlog.Subscription, m *message.Message) eventlog.Batch {
	t.Helper()
	batch, ok := s.Batch(m)
	if !ok {
		t.Fatalf("message %s stands for no batch", m.UUID)
	}
	return batch
}

func ids(batch eventlog.Batch) []string {
	var list []string
	for i := range batch.Events {
		list = append(list, batch.Events[i].ID)
	}
	return list
}

func TestSubscriptionDeliversInOrder(t *testing.T) {
	t.Parallel()
	wake := eventlog.NewWake()
	pool, subscription, messages := setup(t, eventlog.SubscriptionConfig{Wake: wake, Limit: 4})
	want := append(appendThreads(t, pool, "first", 6), appendThreads(t, pool, "second", 5)...)
	wake.Signal()
	var got []string
	for len(got) < len(want) {
		m := receive(t, messages)
		batch := batchOf(t, subscription, m)
		if len(batch.Events) > 4 {
			t.Errorf("batch of %d events, limit 4", len(batch.Events))
		}
		if batch.Start != subscription.Position() {
			t.Errorf("batch starts at %s, not at %s", batch.Start, subscription.Position())
		}
		got = append(got, ids(batch)...)
		subscription.Seek(batch.End, batch.Identity)
		m.Ack()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events differ (-appended +delivered):\n%s", diff)
	}
}

// After a nack the same batch comes again; without a Seek the same events come again, in a message of their own, and
// the old message stands for nothing any more.
func TestSubscriptionRedelivers(t *testing.T) {
	t.Parallel()
	pool, subscription, messages := setup(t, eventlog.SubscriptionConfig{})
	want := appendThreads(t, pool, "first", 3)

	first := receive(t, messages)
	first.Nack()
	again := receive(t, messages)
	if diff := cmp.Diff(want, ids(batchOf(t, subscription, again))); diff != "" {
		t.Errorf("events after a nack differ:\n%s", diff)
	}
	again.Ack()
	third := receive(t, messages)
	if diff := cmp.Diff(want, ids(batchOf(t, subscription, third))); diff != "" {
		t.Errorf("events without a seek differ:\n%s", diff)
	}
	if _, ok := subscription.Batch(again); ok {
		t.Error("the message of an earlier poll still stands for a batch")
	}
	third.Ack()
}

func TestSubscriptionStopsBeforeUndecodable(t *testing.T) {
	t.Parallel()
	wake := eventlog.NewWake()
	pool, subscription, messages := setup(t, eventlog.SubscriptionConfig{Wake: wake})
	want := appendThreads(t, pool, "first", 3)
	_, err := pool.Exec(t.Context(), `INSERT INTO events (position, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, metadata)
		VALUES (0, 'thread', gen_random_uuid(), 1, 'odd', 'test', 'thread.folded.v1', '{}', '{}')`)
	if err != nil {
		t.Fatal(err)
	}
	appendThreads(t, pool, "second", 3)
	wake.Signal()
	var got []string
	for {
		m := receive(t, messages)
		batch := batchOf(t, subscription, m)
		got = append(got, ids(batch)...)
		subscription.Seek(batch.End, batch.Identity)
		m.Ack()
		if batch.Undecodable == nil {
			continue // the poll came before the event
		}
		if !errors.Is(batch.Undecodable, events.ErrUnknownType) || batch.Undecodable.Recorded.ID != "odd" {
			t.Errorf("undecodable: %v", batch.Undecodable)
		}
		break
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events before the undecodable one differ:\n%s", diff)
	}
}

// A notification of one process wakes the subscriptions of another, and not those of its own process a second time.
func TestNotifierWakesOtherProcesses(t *testing.T) {
	t.Parallel()
	theirs := eventlog.NewWake()
	pool, subscription, messages := setup(t, eventlog.SubscriptionConfig{Wake: theirs})
	ours := eventlog.NewWake()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{}, 2)
	go func() { eventlog.Listen(ctx, pool.Config().ConnConfig, theirs, nil); ended <- struct{}{} }()
	go func() { eventlog.NewNotifier(pool, ours, nil).Run(ctx); ended <- struct{}{} }()
	for i := range 5 {
		want := appendThreads(t, pool, fmt.Sprintf("part-%d", i), 2)
		ours.Signal()
		m := receive(t, messages)
		batch := batchOf(t, subscription, m)
		if diff := cmp.Diff(want, ids(batch)); diff != "" {
			t.Errorf("events differ:\n%s", diff)
		}
		subscription.Seek(batch.End, batch.Identity)
		m.Ack()
	}
	cancel()
	<-ended
	<-ended
}

// Closing does not wait for a signal, for Before, or for a message that nobody takes.
func TestSubscriptionCloses(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]eventlog.SubscriptionConfig{
		"waiting for a signal": {Wake: eventlog.NewWake()},
		"in Before":            {Before: func(ctx context.Context) { <-ctx.Done() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, subscription, messages := setup(t, config)
			time.Sleep(20 * time.Millisecond)
			if err := subscription.Close(); err != nil {
				t.Error(err)
			}
			if _, open := <-messages; open {
				t.Error("a message after Close")
			}
		})
	}
}

// The poll walks the primary key from where it starts, also when the statement was planned while the log was empty.
func TestPollUsesTheIndex(t *testing.T) {
	t.Parallel()
	pool, _, _ := setup(t, eventlog.SubscriptionConfig{})
	polls := eventlog.OpenPolls(pool.Config().ConnConfig, 1)
	defer polls.Close() //nolint:errcheck // a test's connection
	var plan strings.Builder
	rows, err := polls.QueryContext(t.Context(), "EXPLAIN "+eventlog.PollSQL, 5, 5, 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close() //nolint:errcheck // read to the end
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(line + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(plan.String(), "Index Scan using events_pkey") || strings.Contains(plan.String(), "Sort") {
		t.Errorf("plan of the poll:\n%s", plan.String())
	}
}

// A poll does not see what a transaction has appended while an older one is running, whose events would come before it.
func TestPollStaysBelowRunningTransactions(t *testing.T) {
	t.Parallel()
	pool, _, _ := setup(t, eventlog.SubscriptionConfig{})
	poll := func() (n int, settled bool) {
		t.Helper()
		rows, err := pool.Query(t.Context(), `SELECT transaction_id IS NOT NULL, settled FROM (`+eventlog.PollSQL+`) AS poll`,
			"0", 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		var found bool
		if _, err := pgx.ForEachRow(rows, []any{&found, &settled}, func() error {
			if found {
				n++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return n, settled
	}
	older, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := older.Exec(t.Context(), `SELECT pg_current_xact_id()`); err != nil {
		t.Fatal(err)
	}
	appendThreads(t, pool, "younger", 3)
	if n, settled := poll(); n != 0 || settled {
		t.Errorf("%d events are seen while an older transaction is running, settled: %v", n, settled)
	}
	if err := older.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	testdb.Eventually(t, "all are seen", func() bool { n, _ := poll(); return n == 3 })
}
