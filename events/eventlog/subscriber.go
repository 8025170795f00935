package eventlog

import (
	"context"
	"errors"
	"log/slog"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
)

// Topic is the topic to subscribe to. The log has one.
const Topic = "events"

// Subscriber is a Watermill Subscriber of the log: one message is one chunk. The message itself is empty; its context
// has the chunk for Handler.
type Subscriber struct {
	follow func(ctx context.Context, deliver func(context.Context, Chunk) error)
	close  func()
}

// delivery is a chunk for the handler.
type delivery struct {
	chunk Chunk
	err   error // of the handler; set before the message is acked
}

type deliveryKey struct{}

var errNacked = errors.New("the handler of the message failed")

// NewSubscriber returns a subscriber that runs follow. follow calls deliver with one chunk after another until its
// context ends; deliver returns the error of the handler.
func NewSubscriber(follow func(ctx context.Context, deliver func(context.Context, Chunk) error)) *Subscriber {
	return &Subscriber{follow: follow, close: func() {}}
}

// Subscribe implements message.Subscriber. It may be called once.
func (s *Subscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	ctx, cancel := context.WithCancel(ctx)
	messages, ended := make(chan *message.Message), make(chan struct{})
	s.close = func() { cancel(); <-ended }
	go func() {
		defer close(ended)
		defer close(messages)
		s.follow(ctx, func(ctx context.Context, chunk Chunk) error { return deliver(ctx, chunk, messages) })
	}()
	return messages, nil
}

// Close implements message.Subscriber. It cancels the context of a message that is being handled, and does not wait for
// its handler.
func (s *Subscriber) Close() error {
	s.close()
	return nil
}

func deliver(ctx context.Context, chunk Chunk, messages chan<- *message.Message) error {
	d := &delivery{chunk: chunk}
	m := message.NewMessage(watermill.NewUUID(), nil)
	m.SetContext(context.WithValue(ctx, deliveryKey{}, d))
	select {
	case messages <- m:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-m.Acked():
		return d.err
	case <-m.Nacked():
		return errNacked
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Handler returns a Watermill handler that applies chunks. It always acks; unapplied events are read again.
func (*Subscriber) Handler(apply func(context.Context, Chunk) error) message.NoPublishHandlerFunc {
	return func(m *message.Message) error {
		if d, ok := m.Context().Value(deliveryKey{}).(*delivery); ok {
			d.err = apply(m.Context(), d.chunk)
		}
		return nil
	}
}

// WatermillLogger passes Watermill's log on, with its level info as debug.
func WatermillLogger(logger *slog.Logger) watermill.LoggerAdapter {
	return watermill.NewSlogLoggerWithLevelMapping(logger, map[slog.Level]slog.Level{
		slog.LevelInfo:  slog.LevelDebug,
		slog.LevelDebug: watermill.LevelTrace,
	})
}
