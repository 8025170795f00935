package eventlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	watersql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"

	"novelgate/events"
)

// ackDeadline is when watermill-sql gives up on a handler. Readers bound their own work, well below this.
const ackDeadline = time.Hour

// Defaults of SubscriptionConfig.
const (
	DefaultLimit = 4096
	DefaultPace  = 250 * time.Millisecond
)

// SubscriptionConfig says how a reader follows the log.
type SubscriptionConfig struct {
	// DB runs the polls, each a short read-only transaction that takes no transaction id. Required; see OpenPolls.
	DB *sql.DB
	// Wake tells of appends. Without one the log is polled once a second.
	Wake *Wake
	// Limit is the most events that one batch covers; fewer when they are large, see Portion. Default: DefaultLimit.
	Limit int
	// Streams are the kinds of stream whose events are delivered. Others are passed over, whether or not they could be
	// read. Default: all.
	Streams []string
	// Pace is how long at most the next poll is put off after a batch that was not full, so that under load few large
	// batches are handled rather than many small ones. A batch of n events puts it off by n × 2 ms. Default: DefaultPace.
	Pace time.Duration
	// Before is called before each poll but the first, and blocks while there is no point in polling: this is where
	// a receiver that could not apply a batch bides its time. Its context ends when the subscription closes.
	// Default: none.
	Before func(ctx context.Context)
	// Tail is shared by the subscriptions of a process, which then read each event once. Default: none.
	Tail *Tail
	// Logger gets failed polls. Default: slog.Default.
	Logger *slog.Logger
}

// Batch is a run of settled events, without gaps but for streams that nobody asked for, in log order.
type Batch struct {
	Identity Identity // of the log that it was read from

	Start  events.Position   // the batch holds what follows this position
	End    events.Position   // the last event that was read, delivered or passed over; Start if there is none
	Full   bool              // there may be more right behind it
	Events []events.Recorded // without metadata; may be empty
	// Undecodable is set when the event right behind End cannot be read. Its Unwrap tells why: ErrUnknownType
	// of package events means that a newer version of the program wrote it.
	Undecodable *UndecodableError
}

// Subscription follows the log from a position: a watermill-sql Subscriber whose messages are batches of events.
// A message itself carries nothing; its receiver fetches the batch with Batch, and moves on with Seek once it has
// stored its own progress. Until then the same events come again. Delivery is at least once: a receiver that
// must not apply an event twice compares Batch.Start with its own stored position.
type Subscription struct {
	config     SubscriptionConfig
	subscriber *watersql.Subscriber
	closed     context.Context //nolint:containedctx // watermill-sql's Close does not reach into its BackoffManager
	cancel     context.CancelFunc
	signals    <-chan struct{}
	unregister func()

	closeOnce sync.Once // the library's Close is not safe for two at a time
	closeErr  error

	mu       sync.Mutex
	position events.Position
	identity Identity // of the log that the position belongs to, as far as it is known
	current  string   // UUID of the message that stands for batch
	batch    Batch

	poll   poll    // result of the latest poll
	found  stretch // what it would have read, from the tail
	done   func()  // to call after the poll, when others may wait for it
	latest int     // events in the latest stretch
	waits  waits   // state between polls

	portion *Portion // of a poll
}

// NewSubscription returns a subscription that starts at the beginning of the log unless Seek says otherwise.
func NewSubscription(config SubscriptionConfig) (*Subscription, error) {
	if config.DB == nil {
		return nil, errors.New("create subscription: DB is nil")
	}
	if config.Limit <= 0 {
		config.Limit = DefaultLimit
	}
	if config.Pace <= 0 {
		config.Pace = DefaultPace
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	s := &Subscription{config: config, unregister: func() {}, done: func() {}, portion: NewPortion(config.Limit)}
	s.closed, s.cancel = context.WithCancel(context.Background())
	deadline := ackDeadline
	var err error
	s.subscriber, err = watersql.NewSubscriber(readOnly{config.DB}, watersql.SubscriberConfig{
		AckDeadline:    &deadline,
		BackoffManager: (*backoff)(s),
		SchemaAdapter:  (*subscribeSchema)(s),
		OffsetsAdapter: noOffsets{},
	}, WatermillLogger(config.Logger))
	if err != nil {
		s.cancel()
		return nil, fmt.Errorf("create subscriber: %w", err)
	}
	if config.Wake != nil {
		s.signals, s.unregister = config.Wake.register(false)
	}
	return s, nil
}

// Subscribe implements message.Subscriber. The log has one topic: Topic.
func (s *Subscription) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	context.AfterFunc(ctx, s.cancel)
	messages, err := s.subscriber.Subscribe(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", topic, err)
	}
	return messages, nil
}

// Close ends the subscription, at once unless a poll is under way. The context of a message that is being handled
// ends too.
func (s *Subscription) Close() error {
	s.closeOnce.Do(func() {
		s.cancel()
		s.unregister()
		if err := s.subscriber.Close(); err != nil {
			s.closeErr = fmt.Errorf("close subscriber: %w", err)
		}
		s.done()
	})
	return s.closeErr
}

// Seek makes the next poll start behind this position of a log. When it finds another log, that comes as a batch, which
// may be empty: the position may mean nothing there.
func (s *Subscription) Seek(position events.Position, of Identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.position, s.identity = position, of
}

// Position is where the next poll starts.
func (s *Subscription) Position() events.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.position
}

// Batch returns what a message stands for. It is false for a message of an earlier poll, whose events come again if
// they still matter. A message that is sent again after a nack keeps its batch.
func (s *Subscription) Batch(m *message.Message) (Batch, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.batch, m.UUID == s.current
}

// Topic is the topic to subscribe to.
const Topic = topic

// WatermillLogger passes Watermill's log on. What it calls information is of interest when debugging, and so are the
// errors that closing a subscription in the middle of a poll leads to.
func WatermillLogger(logger *slog.Logger) watermill.LoggerAdapter {
	return watermillLogger{watermill.NewSlogLoggerWithLevelMapping(logger, map[slog.Level]slog.Level{
		slog.LevelInfo:  slog.LevelDebug,
		slog.LevelDebug: watermill.LevelTrace,
	})}
}

type watermillLogger struct{ watermill.LoggerAdapter }

// Error implements watermill.LoggerAdapter.
func (l watermillLogger) Error(msg string, err error, fields watermill.LogFields) {
	queryErr, _ := fields["query_err"].(error) // why a transaction is rolled back that now cannot be
	if errors.Is(err, context.Canceled) || errors.Is(queryErr, context.Canceled) {
		l.Info(msg, fields.Add(watermill.LogFields{"error": err}))
		return
	}
	l.LoggerAdapter.Error(msg, err, fields)
}

// With implements watermill.LoggerAdapter.
func (l watermillLogger) With(fields watermill.LogFields) watermill.LoggerAdapter {
	return watermillLogger{l.LoggerAdapter.With(fields)}
}
