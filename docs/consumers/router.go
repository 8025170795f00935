package consumers

import (
	"context"
	"fmt"
	"strconv"

	"github.com/ThreeDotsLabs/watermill"
	watermillnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/jetstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Router returns a Watermill router that applies a stream to a table. The NATS servers store the progress of the
// consumer under its name. Closing the router closes the connection.
func Router(
	conn *nats.Conn, stream, name string, table *Table, logger watermill.LoggerAdapter,
) (*message.Router, error) {
	subscriber, err := watermillnats.NewSubscriber(watermillnats.SubscriberConfig{
		Conn: conn, Logger: logger, Unmarshaler: unmarshaler{}, ResourceInitializer: durable(name),
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", stream, err)
	}
	router, err := message.NewRouter(message.RouterConfig{}, logger)
	if err != nil {
		return nil, fmt.Errorf("make a router: %w", err)
	}
	router.AddConsumerHandler(name, stream, subscriber, func(m *message.Message) error {
		sequence, err := strconv.ParseUint(m.UUID, 10, 64)
		if err != nil {
			return err
		}
		return table.Apply(m.Context(), sequence, m.Payload)
	})
	return router, nil
}

// durable creates a consumer whose progress the NATS servers store. At most one message at a time is not acknowledged,
// which keeps the order when a message is delivered again.
func durable(name string) watermillnats.ResourceInitializer {
	return func(ctx context.Context, js jetstream.JetStream, stream string) (
		jetstream.Consumer, func(context.Context, watermill.LoggerAdapter), error,
	) {
		consumer, err := js.CreateOrUpdateConsumer(ctx, stream, jetstream.ConsumerConfig{
			Durable: name, FilterSubjects: Subjects, AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 1,
		})
		return consumer, nil, err
	}
}

// unmarshaler gives each message its sequence as UUID.
type unmarshaler struct{}

// Unmarshal implements watermillnats.Unmarshaler.
func (unmarshaler) Unmarshal(m jetstream.Msg) (*message.Message, error) {
	metadata, err := m.Metadata()
	if err != nil {
		return nil, fmt.Errorf("read the sequence of a message: %w", err)
	}
	return message.NewMessage(strconv.FormatUint(metadata.Sequence.Stream, 10), m.Data()), nil
}
