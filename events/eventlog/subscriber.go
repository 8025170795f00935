package eventlog

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
)

// Topic is the topic to subscribe to. The log has one.
const Topic = "events"

// Subscriber is a Watermill Subscriber of the log: one message is one chunk. The message itself is empty; Handler finds
// the chunk that it stands for.
type Subscriber struct {
	follow func(ctx context.Context, deliver func(context.Context, Chunk) error)
	close  func()

	mu      sync.Mutex
	current *delivery
}

type delivery struct {
	message *message.Message
	chunk   Chunk
	err     error // of the handler; set before the message is acked
}

var errNacked = errors.New("the handler of the message failed")

// NewSubscriber returns a subscriber that follows the log with a function. That calls deliver with one chunk after
// another until its context ends; deliver returns what the handler did.
func NewSubscriber(follow func(ctx context.Context, deliver func(context.Context, Chunk) error)) *Subscriber {
	return &Subscriber{follow: follow, close: func() {}}
}

// Subscribe implements message.Subscriber. A subscriber is subscribed once.
func (s *Subscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	ctx, cancel := context.WithCancel(ctx)
	messages, ended := make(chan *message.Message), make(chan struct{})
	s.close = func() { cancel(); <-ended }
	go func() {
		defer close(ended)
		defer close(messages)
		s.follow(ctx, func(ctx context.Context, chunk Chunk) error { return s.deliver(ctx, chunk, messages) })
	}()
	return messages, nil
}

// Close implements message.Subscriber. It does not wait for a message that is being handled, whose context ends.
func (s *Subscriber) Close() error {
	s.close()
	return nil
}

func (s *Subscriber) deliver(ctx context.Context, chunk Chunk, messages chan<- *message.Message) error {
	d := &delivery{message: message.NewMessage(watermill.NewUUID(), nil), chunk: chunk}
	d.message.SetContext(ctx)
	s.mu.Lock()
	s.current = d
	s.mu.Unlock()
	select {
	case messages <- d.message:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-d.message.Acked():
		return d.err
	case <-d.message.Nacked():
		return errNacked
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Handler returns a Watermill handler that applies chunks. It always acks: what was not applied is read again.
func (s *Subscriber) Handler(apply func(context.Context, Chunk) error) message.NoPublishHandlerFunc {
	return func(m *message.Message) error {
		s.mu.Lock()
		d := s.current
		s.mu.Unlock()
		if d.message.UUID == m.UUID {
			d.err = apply(m.Context(), d.chunk)
		}
		return nil
	}
}

// WatermillLogger passes Watermill's log on. What it calls information is of interest when debugging.
func WatermillLogger(logger *slog.Logger) watermill.LoggerAdapter {
	return watermill.NewSlogLoggerWithLevelMapping(logger, map[slog.Level]slog.Level{
		slog.LevelInfo:  slog.LevelDebug,
		slog.LevelDebug: watermill.LevelTrace,
	})
}
