package projections

import (
	"context"
	"log/slog"

	"novelgate/events"
	"novelgate/events/eventlog"
)

// Chunks of a projection that catches up. The next ones are read and decoded while some are applied.
const (
	chunkSize  = 10_000
	chunkAhead = 2
)

// catchUp applies large chunks until the projection has come close to the end of the log, or something is in the way:
// that is left to the next batch, which deals with a single event if it must.
func (f *follower) catchUp(ctx context.Context) {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	chunks, failed := eventlog.ReadAhead(reading, f.pool.Config().ConnConfig, f.position,
		eventlog.AheadConfig{
			Size: chunkSize, Chunks: chunkAhead, Streams: Streams(f.projection),
		})
	if err := f.writeChunks(ctx, loadAhead(reading, f.projection, chunks)); err != nil {
		f.logger.DebugContext(ctx, "Catching up was interrupted", slog.Any("error", err))
	}
	stop()
	if err := failed(); err != nil && ctx.Err() == nil {
		f.logger.DebugContext(ctx, "Reading ahead was interrupted", slog.Any("error", err))
	}
}

// inTrouble leaves what lies before a position to batches.
func (f *follower) inTrouble(end events.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trouble = end
}
