package eventlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"novelgate/events"
)

// AheadConfig says how to read a large part of the log.
type AheadConfig struct {
	Size    int      // events in a chunk; fewer when they are large, see Portion
	Chunks  int      // chunks that are kept ready
	Streams []string // kinds of stream that are delivered; nil: all
}

// Connect opens a connection for reading large parts of the log.
func Connect(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to read the log: %w", err)
	}
	if err := SetUpReader(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return conn, nil
}

// ReadAhead reads the log behind a position, over a connection of its own, while the receiver still works on what came
// before. The channel is closed behind the first chunk that is not full, when ctx ends, or when reading fails; the
// function, to be called after that or after ctx was ended, waits for the reader and returns its error.
func ReadAhead(
	ctx context.Context, config *pgx.ConnConfig, after events.Position, ahead AheadConfig,
) (<-chan Chunk, func() error) {
	chunks := make(chan Chunk, ahead.Chunks-1)
	ended := make(chan error, 1)
	go func() {
		defer close(chunks)
		ended <- readAhead(ctx, config, after, ahead, chunks)
	}()
	return chunks, func() error { return <-ended }
}

func readAhead(
	ctx context.Context, config *pgx.ConnConfig, after events.Position, ahead AheadConfig, chunks chan<- Chunk,
) error {
	conn, err := Connect(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // there is nothing to lose
	portion := NewPortion(ahead.Size)
	for {
		identity, err := Identify(ctx, conn)
		if err != nil {
			return err
		}
		chunk, err := ReadChunk(ctx, conn, after, portion, ahead.Streams)
		if err != nil {
			return err
		}
		chunk.Identity = identity
		if chunk.Read > 0 {
			select {
			case chunks <- chunk:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if !chunk.Full {
			return nil
		}
		after = chunk.End
	}
}
