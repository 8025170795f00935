package bundle

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"

	"novelgate/events/ledger"
	"novelgate/internal/database"
)

// chunks writes events, entry bundles and the lowest tiles of several chunks concurrently, while earlier chunks are
// synced to disk.
func (x *Export) chunks(ctx context.Context, store *ledger.Store, m Manifest, made *dirs) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	const usual = 2
	workers := x.Workers
	if workers <= 0 {
		workers = usual
	}
	var next, done atomic.Int64
	next.Store(m.FirstLogIndex)
	var telling sync.Mutex
	finished := make(chan written, workers)
	for range workers {
		w := chunkWriter{
			dir: x.Dir, db: x.DB, store: store, made: made, size: m.Size, out: bufio.NewWriterSize(nil, outBuffer),
		}
		group.Go(func() error {
			for ctx.Err() == nil {
				first := next.Add(EventsPerFile) - EventsPerFile
				if first >= m.Size {
					return nil
				}
				chunk, err := w.write(ctx, first)
				if err != nil {
					return err
				}
				if chunk.events != "" {
					finished <- chunk
				}
				telling.Lock()
				if now := done.Add(int64(Width(first, m.Size))); x.Progress != nil {
					x.Progress(now, m.Events)
				}
				telling.Unlock()
			}
			return fmt.Errorf("export: %w", ctx.Err())
		})
	}
	synced := make(chan error, 1)
	go func() { synced <- x.syncAll(finished, cancel) }()
	err := group.Wait()
	close(finished)
	failed := <-synced
	if failed != nil && errors.Is(err, context.Canceled) {
		return failed // the cause of the cancellation
	}
	return errors.Join(err, failed)
}

// outBuffer is the size of the write buffer, in bytes.
const outBuffer = 256 << 10

// chunkWriter writes one chunk after another.
type chunkWriter struct {
	dir   string
	db    database.Querier
	store *ledger.Store
	made  *dirs
	size  int64
	out   *bufio.Writer

	line, entry, entries []byte // buffers of the previous ones
}

// write writes one file of events and its tiles. It returns the zero value if they exist.
func (w *chunkWriter) write(ctx context.Context, first int64) (written, error) {
	count := Width(first, w.size)
	chunk := written{events: inside(w.dir, EventsPath(first/EventsPerFile, count))}
	var tiles []tlog.Tile // of level 0; each has an entry bundle
	err := w.made.make(filepath.Dir(chunk.events))
	for offset := 0; offset < count; offset += ledger.TileWidth {
		tile := tlog.Tile{
			H: ledger.TileHeight, L: 0, N: (first + int64(offset)) / ledger.TileWidth, W: min(ledger.TileWidth, count-offset),
		}
		tiles = append(tiles, tile)
		err = errors.Join(err, w.made.make(filepath.Dir(w.path(tile, 0))), w.made.make(filepath.Dir(w.path(tile, -1))))
	}
	if err != nil {
		return written{}, err
	}
	if there, err := exists(chunk.events); there || err != nil {
		return written{}, err
	}
	if err := w.tiles(ctx, &chunk, tiles); err != nil {
		return written{}, err
	}
	err = w.events(ctx, &chunk, first, count)
	return chunk, err
}

// events writes the file of events line by line, because comments may be large, and their entry bundles.
func (w *chunkWriter) events(ctx context.Context, chunk *written, first int64, count int) (err error) {
	path := chunk.events + partial
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w.out.Reset(file)
	next, end := first, first+int64(count)
	addEntry := func(entry []byte) error {
		w.entries = ledger.AppendToBundle(w.entries, entry)
		if next++; next%ledger.TileWidth > 0 && next < end {
			return nil
		}
		n := (next - 1) / ledger.TileWidth
		entries := w.entries
		w.entries = w.entries[:0]
		return chunk.put(w.path(tlog.Tile{N: n, W: int(next - n*ledger.TileWidth)}, -1), entries)
	}
	err = ledger.EachEvent(ctx, w.db, first, count, w.size, func(e *ledger.Event) (err error) {
		if w.line, err = appendLine(w.line[:0], e); err != nil {
			return fmt.Errorf("event %s of %s: %w", e.ID, e.Source, err)
		}
		if _, err := w.out.Write(w.line); err != nil {
			return fmt.Errorf("write file: %w", err)
		}
		if e.LogIndex < next {
			return nil // it was never sealed
		}
		for next < e.LogIndex {
			err = errors.Join(err, addEntry(nil)) // its event is missing
		}
		w.entry, _ = ledger.AppendEntry(w.entry[:0], &e.Row) // none for an event that is too large to have been sealed
		return errors.Join(err, addEntry(w.entry))
	})
	for err == nil && next < end {
		err = addEntry(nil)
	}
	if err != nil {
		return err
	}
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	chunk.files = append(chunk.files, path)
	return nil
}

// tiles writes the lowest tiles of a chunk. They and the entry bundles get their final names at once: the file of
// events, renamed later, marks them as complete.
func (w *chunkWriter) tiles(ctx context.Context, chunk *written, tiles []tlog.Tile) error {
	hashes, err := w.store.Tiles(ctx, tiles)
	if err != nil {
		return fmt.Errorf("export tiles: %w", err)
	}
	for i, tile := range tiles {
		if err := chunk.put(w.path(tile, 0), hashes[i]); err != nil {
			return err
		}
	}
	return nil
}

// path returns the path of a tile at a level.
func (w *chunkWriter) path(tile tlog.Tile, level int) string {
	tile.L = level
	return inside(w.dir, TilePath(tile))
}

// put writes a file, which has to be synced later.
func (c *written) put(path string, data []byte) error {
	if err := os.WriteFile(path, data, fileMode); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	c.files = append(c.files, path)
	return nil
}
