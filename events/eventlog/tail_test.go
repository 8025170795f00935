package eventlog_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
)

// follow joins another subscription to the log of a pool.
func follow(t *testing.T, config eventlog.SubscriptionConfig) (*eventlog.Subscription, <-chan *message.Message) {
	t.Helper()
	config.Logger = slog.New(slog.DiscardHandler)
	subscription, err := eventlog.NewSubscription(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = subscription.Close() })
	messages, err := subscription.Subscribe(context.Background(), eventlog.Topic)
	if err != nil {
		t.Fatal(err)
	}
	return subscription, messages
}

// Subscriptions with one Tail, of which one is slow, all get every event in order and at once, and decode it once for
// all of them.
func TestTailIsShared(t *testing.T) {
	t.Parallel()
	const rounds, each, readers = 60, 3, 3
	wake, tail := eventlog.NewWake(), eventlog.NewTail()
	config := eventlog.SubscriptionConfig{Wake: wake, Tail: tail, Limit: 4, Pace: 4 * time.Millisecond}
	pool, first, firstMessages := setup(t, config)
	config.DB = eventlog.OpenPolls(pool.Config().ConnConfig, readers)
	t.Cleanup(func() { _ = config.DB.Close() })

	got := make([][]string, readers)
	decoded := make([]map[*events.Recorded]bool, readers)
	done := make(chan error, readers)
	for i := range readers {
		decoded[i] = map[*events.Recorded]bool{}
		subscription, messages := first, firstMessages
		if i > 0 {
			subscription, messages = follow(t, config)
		}
		go func() {
			for len(got[i]) < rounds*each {
				var m *message.Message
				select {
				case m = <-messages:
				case <-time.After(testdb.UntilSettled):
					done <- fmt.Errorf("reader %d has %d of %d events after %v", i, len(got[i]), rounds*each, testdb.UntilSettled)
					return
				}
				batch, ok := subscription.Batch(m)
				if !ok {
					done <- fmt.Errorf("a message of reader %d stands for no batch", i)
					return
				}
				for j := range batch.Events {
					decoded[i][&batch.Events[j]] = true
				}
				got[i] = append(got[i], ids(batch)...)
				if i == 1 {
					time.Sleep(5 * time.Millisecond)
				}
				subscription.Seek(batch.End, batch.Identity)
				m.Ack()
			}
			done <- nil
		}()
	}
	var want []string
	for i := range rounds {
		want = append(want, appendThreads(t, pool, fmt.Sprint(i), each)...)
		wake.Signal()
		time.Sleep(time.Duration(i%4) * time.Millisecond)
	}
	for range readers {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	shared := 0
	for i := range readers {
		if diff := cmp.Diff(want, got[i]); diff != "" {
			t.Errorf("events of reader %d differ (-appended +delivered):\n%s", i, diff)
		}
		for event := range decoded[i] {
			for j := range i {
				if decoded[j][event] {
					shared++
					break
				}
			}
		}
	}
	if shared == 0 { // how many it is depends on how busy the machine is
		t.Error("no event was shared")
	}
	t.Logf("shared %d of %d", shared, (readers-1)*rounds*each)
}

// One signal may stand for two appends. A subscription that finds the first of them with another one, which has not
// read the second yet, comes back for it at once.
func TestTailMissesNoSignal(t *testing.T) {
	t.Parallel()
	wake, tail := eventlog.NewWake(), eventlog.NewTail()
	config := eventlog.SubscriptionConfig{Wake: wake, Tail: tail}
	pool, first, firstMessages := setup(t, config)
	config.DB = eventlog.OpenPolls(pool.Config().ConnConfig, 1)
	t.Cleanup(func() { _ = config.DB.Close() })
	second, secondMessages := follow(t, config)
	ack := func(s *eventlog.Subscription, m *message.Message) {
		batch := batchOf(t, s, m)
		s.Seek(batch.End, batch.Identity)
		m.Ack()
	}
	// The machine may be busy: it is the most that count.
	const lead = 4
	ahead := 0 // those that came with a signal, less the others
	for i := 0; ahead < lead; i++ {
		if i == 30 || ahead == -lead {
			t.Fatalf("of %d events, those that came with a signal are ahead of those that came with the poll by %d", i, ahead)
		}
		appendThreads(t, pool, fmt.Sprintf("both %d", i), 1)
		wake.Signal()
		busy := receive(t, secondMessages)
		ack(first, receive(t, firstMessages))

		appendThreads(t, pool, fmt.Sprintf("shared %d", i), 1)
		wake.Signal()
		held := receive(t, firstMessages)
		appendThreads(t, pool, fmt.Sprintf("unread %d", i), 1)
		if err := testdb.AwaitSettled(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		wake.Signal()

		ack(second, busy)
		ack(second, receive(t, secondMessages))
		start := time.Now()
		last := receive(t, secondMessages)
		if time.Since(start) < 500*time.Millisecond {
			ahead++
		} else {
			ahead--
		}
		ack(second, last)
		ack(first, held)
		ack(first, receive(t, firstMessages))
	}
}
