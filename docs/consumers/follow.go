package consumers

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Follow applies a stream to a table until ctx ends or an error occurs; after an error call it again. It continues
// after the sequence that the database stores. The NATS servers store no progress.
func Follow(ctx context.Context, js jetstream.JetStream, stream string, table *Table) error {
	sequence, err := table.Sequence(ctx)
	if err != nil {
		return err
	}
	consumer, err := js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: sequence + 1, FilterSubjects: Subjects,
	})
	if err != nil {
		return fmt.Errorf("consume %s: %w", stream, err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		return fmt.Errorf("consume %s: %w", stream, err)
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
		if err := table.Apply(ctx, metadata.Sequence.Stream, m.Data()); err != nil {
			return err
		}
	}
}
