package projections

import (
	"context"
	"log/slog"

	"novelgate/events"
	"novelgate/events/eventlog"
)

// Chunks of a projection that catches up. The next ones are read and decoded while one is applied.
const (
	chunkSize  = 10_000
	chunkAhead = 2
)

// isBehind reports whether there is more to apply than a poll returns.
func (f *follower) isBehind() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.behind
}

// catchUp applies large chunks until the projection has come close to the end of the log, or something is in the way: that
// is left to the next batch, which deals with a single event if it must.
func (f *follower) catchUp(ctx context.Context) {
	f.mu.Lock()
	f.behind = false
	f.mu.Unlock()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	chunks, failed := eventlog.ReadAhead(reading, f.pool.Config().ConnConfig, f.subscription.Position(), eventlog.AheadConfig{
		Size: chunkSize, Chunks: chunkAhead, Streams: Streams(f.projection),
	})
	for chunk := range loadAhead(reading, f.projection, chunks) {
		if len(chunk.Undecodable) > 0 {
			f.inTrouble(chunk.End)
			break
		}
		err := chunk.failed
		if err == nil {
			// A transaction that has begun is finished even if the subscription closes.
			err = write(context.WithoutCancel(ctx), f.pool, f.projection, chunk.Start, chunk.End, chunk.rows, chunk.rest)
		}
		if err != nil {
			f.inTrouble(chunk.End)
			f.logger.DebugContext(ctx, "Catching up was interrupted", slog.Any("error", err))
			break
		}
		f.subscription.Seek(chunk.End)
	}
	stop()
	if err := failed(); err != nil && ctx.Err() == nil {
		f.logger.DebugContext(ctx, "Reading ahead was interrupted", slog.Any("error", err))
	}
}

// loadedChunk is a chunk of which all that merely adds rows has become those. They are copied in, which costs less than applying events. Where
// rows are in the way that fails, as attempt would not: Apply knows what to do about them.
type loadedChunk struct {
	eventlog.Chunk
	rows   []Rows
	rest   []events.Recorded // to apply
	failed error             // there are no rows
}

// loadAhead makes rows of a chunk while the receiver still writes those of the one before.
func loadAhead(ctx context.Context, projection Projection, chunks <-chan eventlog.Chunk) <-chan loadedChunk {
	loaded := make(chan loadedChunk)
	go func() {
		defer close(loaded)
		for chunk := range chunks {
			l := loadedChunk{Chunk: chunk, rest: chunk.Events}
			if bulk, ok := projection.(Bulk); ok {
				l.rows, l.rest, l.failed = Load(bulk, chunk.Events)
			}
			select {
			case loaded <- l:
			case <-ctx.Done():
				return
			}
		}
	}()
	return loaded
}

// inTrouble leaves what lies before a position to batches.
func (f *follower) inTrouble(end events.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trouble = end
}
