package audit

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"

	"novelgate/events/ledger"
	"novelgate/internal/system"
)

const (
	defaultWorkers = 2
	outBuffer      = 256 << 10 // bytes of the write buffer
	// concurrentSyncs is the number of files of a chunk that are synced concurrently: the disk orders them, and the file
	// system writes its journal once for all. Sequential syncs take several times as long.
	concurrentSyncs = 8
	// maxUnsynced is the number of chunks that are synced while others are written. A crash loses at most these and
	// those that are being written.
	maxUnsynced = 4
)

// writeChunks writes events, entry bundles and the lowest tiles of several chunks concurrently, while earlier chunks
// are synced to disk.
func (x *Export) writeChunks(ctx context.Context, store *ledger.Store, m Manifest) error {
	group, ctx := errgroup.WithContext(ctx)
	workers := cmp.Or(x.Workers, defaultWorkers)
	var next atomic.Int64
	next.Store(m.FirstLogIndex)
	var progressMu sync.Mutex
	done := int64(0) // guarded by progressMu
	unsynced := make(chan struct{}, maxUnsynced)
	write := func(w *chunkWriter, first int64) error {
		files, events, err := w.write(ctx, first)
		if err != nil {
			return err
		}
		if len(files) > 0 {
			unsynced <- struct{}{}
			group.Go(func() error {
				defer func() { <-unsynced }()
				return syncChunk(files, events)
			})
		}
		progressMu.Lock()
		defer progressMu.Unlock()
		done += int64(chunkLength(first, m.Size))
		if x.Progress != nil {
			x.Progress(done, m.Events)
		}
		return nil
	}
	for range workers {
		w := chunkWriter{dir: x.Dir, store: store, size: m.Size, out: bufio.NewWriterSize(nil, outBuffer)}
		group.Go(func() error {
			for ctx.Err() == nil {
				first := next.Add(eventsPerFile) - eventsPerFile
				if first >= m.Size {
					return nil
				}
				if err := write(&w, first); err != nil {
					return err
				}
			}
			return fmt.Errorf("export: %w", ctx.Err())
		})
	}
	return group.Wait()
}

// chunkWriter writes one chunk after another.
type chunkWriter struct {
	dir   string
	store *ledger.Store
	size  int64
	out   *bufio.Writer

	files                []string // of the chunk, by their current names; not synced yet
	line, entry, entries []byte   // buffers that are used again
}

// write writes the files of a chunk. It returns their current names, none if the chunk exists, and the name that the
// file of events gets when all files are synced.
func (w *chunkWriter) write(ctx context.Context, first int64) (files []string, events string, err error) {
	count := chunkLength(first, w.size)
	events, w.files = inside(w.dir, eventsPath(first/eventsPerFile, count)), nil
	if there, err := exists(events); there || err != nil {
		return nil, events, err
	}
	var tiles []tlog.Tile // of level 0; each has an entry bundle
	for offset := 0; offset < count; offset += ledger.TileWidth {
		tiles = append(tiles, tileAt(0, first+int64(offset), first+int64(count)))
	}
	hashes, err := w.store.Tiles(ctx, tiles)
	if err != nil {
		return nil, events, fmt.Errorf("export tiles: %w", err)
	}
	for i, tile := range tiles {
		if err := w.writeTile(tile, hashes[i]); err != nil {
			return nil, events, err
		}
	}
	err = w.writeEvents(ctx, events, first, count)
	return w.files, events, err
}

// writeEvents writes the file of events, line by line because comments may be large, and the entry bundles.
func (w *chunkWriter) writeEvents(ctx context.Context, path string, first int64, count int) (err error) {
	if err := makeDir(path); err != nil {
		return err
	}
	file, err := os.OpenFile(path+partSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
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
		return w.writeTile(tlog.Tile{L: entryBundles, N: n, W: int(next - n*ledger.TileWidth)}, entries)
	}
	skipTo := func(index int64) error { // the events before it are missing
		for next < index {
			if err := addEntry(nil); err != nil {
				return err
			}
		}
		return nil
	}
	for row, err := range w.store.Events(ctx, first, end) {
		if err != nil {
			return fmt.Errorf("read events from log index %d: %w", first, err)
		}
		if w.line, err = appendEvent(w.line[:0], row); err != nil {
			return fmt.Errorf("event %s of %s: %w", row.ID, row.Source, err)
		}
		if _, err := w.out.Write(append(w.line, '\n')); err != nil {
			return fmt.Errorf("write file: %w", err)
		}
		if err := skipTo(row.LogIndex); err != nil {
			return err
		}
		w.entry, _ = ledger.AppendEntry(w.entry[:0], row) // none for an event that is too large to have been sealed
		if err := addEntry(w.entry); err != nil {
			return err
		}
	}
	if err := skipTo(end); err != nil {
		return err
	}
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	w.files = append(w.files, path+partSuffix)
	return nil
}

// writeTile writes a tile or an entry bundle. They get their final names at once: the file of events, renamed later,
// marks them as complete.
func (w *chunkWriter) writeTile(tile tlog.Tile, data []byte) error {
	path := inside(w.dir, tilePath(tile))
	if err := makeDir(path); err != nil {
		return err
	}
	if err := os.WriteFile(path, data, fileMode); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	w.files = append(w.files, path)
	return nil
}

// syncChunk syncs the files of a chunk and then renames its file of events. An export that continues after a crash
// skips a chunk whose file of events has its final name.
func syncChunk(files []string, events string) error {
	var group errgroup.Group
	group.SetLimit(concurrentSyncs)
	for _, file := range files {
		group.Go(func() error { return system.Sync(file) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return rename(events)
}

// A bundle has personal data, so only its owner can read it.
const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600
)

// partSuffix ends the name of an incomplete file.
const partSuffix = ".part"

// writeFile writes a file under a temporary name, syncs it and renames it.
func writeFile(path string, data []byte) error {
	if err := makeDir(path); err != nil {
		return err
	}
	if err := os.WriteFile(path+partSuffix, data, fileMode); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	if err := system.Sync(path + partSuffix); err != nil {
		return err
	}
	return rename(path)
}

// makeDir makes the directory of a file.
func makeDir(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	return nil
}

// rename gives a complete file its final name.
func rename(path string) error {
	if err := os.Rename(path+partSuffix, path); err != nil {
		return fmt.Errorf("rename file: %w", err)
	}
	return nil
}

// syncDirs syncs a directory and all those in it.
func syncDirs(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return system.Sync(path)
	})
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("check whether file exists: %w", err)
	}
	return true, nil
}
