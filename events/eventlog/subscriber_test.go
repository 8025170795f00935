package eventlog_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
)

// route runs a router with one handler until all chunks are delivered, and returns the result of each delivery.
func route(t *testing.T, chunks []eventlog.Chunk, handle func(context.Context, eventlog.Chunk) error) (said []error) {
	t.Helper()
	logger := eventlog.WatermillLogger(slog.New(slog.DiscardHandler))
	router := testdb.Must(message.NewRouter(message.RouterConfig{}, logger))(t)
	delivered := make(chan struct{})
	subscriber := eventlog.NewSubscriber(func(ctx context.Context, deliver func(context.Context, eventlog.Chunk) error) {
		defer close(delivered)
		for _, chunk := range chunks {
			said = append(said, deliver(ctx, chunk))
		}
	})
	router.AddConsumerHandler("test", eventlog.Topic, subscriber, subscriber.Handler(handle))
	ended := make(chan error, 1)
	go func() { ended <- router.Run(context.WithoutCancel(t.Context())) }()
	<-delivered
	if err := errors.Join(router.Close(), <-ended); err != nil {
		t.Error(err)
	}
	return said
}

// TestSubscriber: a Watermill router passes each chunk to its handler, one at a time, and the handler's error is
// returned.
func TestSubscriber(t *testing.T) {
	t.Parallel()
	var chunks []eventlog.Chunk
	for id := range uint64(4) {
		chunks = append(chunks, eventlog.Chunk{Span: eventlog.Span{End: eventlog.Mark{Position: events.Position(id)}}})
	}
	var handled []eventlog.Chunk
	errApply := errors.New("apply")
	said := route(t, chunks, func(_ context.Context, chunk eventlog.Chunk) error {
		handled = append(handled, chunk)
		switch len(handled) {
		case 2:
			return errApply
		case 3:
			panic("apply")
		}
		return nil
	})
	if diff := cmp.Diff(chunks, handled); diff != "" {
		t.Errorf("chunks differ (-delivered +handled):\n%s", diff)
	}
	if len(said) != 4 || said[0] != nil || !errors.Is(said[1], errApply) || said[2] == nil || said[3] != nil {
		t.Errorf("deliver says %v", said)
	}
}

// TestSubscriberCloses: closing ends the follower, and does not wait for an unhandled message.
func TestSubscriberCloses(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]bool{"not taken": false, "not handled": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := make(chan error, 1)
			subscriber := eventlog.NewSubscriber(
				func(ctx context.Context, deliver func(context.Context, eventlog.Chunk) error) {
					said <- deliver(ctx, eventlog.Chunk{})
				})
			messages := testdb.Must(subscriber.Subscribe(context.Background(), eventlog.Topic))(t)
			if take {
				<-messages
			}
			if err := subscriber.Close(); err != nil {
				t.Error(err)
			}
			if err := <-said; !errors.Is(err, context.Canceled) {
				t.Errorf("deliver says %v", err)
			}
			for range messages {
				t.Error("a message after Close")
			}
		})
	}
}
