package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"

	"novelgate/events/ledger"
)

// Export writes a bundle.
type Export struct {
	// DB is where the history is, with the settings of database.OpenHistory. Required.
	DB Database
	// Dir is the directory to write to: a new one, an empty one, or one that an earlier export has written, which is added to.
	Dir string
	// From is the log index to start with, rounded down to the beginning of its file. 0: the whole history.
	From int64
	// Workers is how many files are written at a time. Default: 2.
	Workers int
	// Now is the clock. Required.
	Now func() time.Time
	// Progress is called as the work proceeds, from one goroutine at a time or not at all. Default: nobody is told.
	Progress func(done, total int64)
}

// Errors of Run.
var (
	// ErrOccupied is returned for a directory that has something else in it.
	ErrOccupied = errors.New("the directory is not empty and holds no bundle")
	// ErrOtherBundle is returned for a bundle of another origin, beginning or history.
	ErrOtherBundle = errors.New("the directory holds another bundle")
)

// Run exports up to the newest checkpoint and returns the manifest. Only what is not there yet is read and written. After an
// error or an interruption the same call goes on. It fails with ledger.ErrNotFound while nothing was signed.
func (x *Export) Run(ctx context.Context) (Manifest, error) {
	store := ledger.NewStore(x.DB)
	checkpoint, err := store.Latest(ctx)
	if err != nil {
		return Manifest{}, fmt.Errorf("export: %w", err)
	}
	keys, err := store.VerifierKeys(ctx, checkpoint)
	if err != nil {
		return Manifest{}, fmt.Errorf("export: %w", err)
	}
	manifest := Manifest{
		Format: Format, Origin: checkpoint.Origin, FirstLogIndex: x.From - x.From%EventsPerFile, Size: checkpoint.Tree.N,
		LastLogIndex: checkpoint.Tree.N - 1, EventsPerFile: EventsPerFile, ExportedAt: x.Now().UTC(),
	}
	if x.From < 0 || manifest.FirstLogIndex > manifest.Size {
		return Manifest{}, fmt.Errorf("export: log index %d of %d: %w", x.From, manifest.Size, ledger.ErrNotFound)
	}
	manifest.Events = manifest.Size - manifest.FirstLogIndex
	before, err := x.open(manifest)
	if err != nil {
		return Manifest{}, err
	}
	if err := x.chunks(ctx, store, manifest); err != nil {
		return Manifest{}, err
	}
	manifest.Complete = true
	err = errors.Join(
		x.upperTiles(ctx, store, manifest),
		writeFile(inside(x.Dir, KeyFile), []byte(strings.Join(keys, "\n")+"\n")),
		writeFile(inside(x.Dir, CheckpointFile), checkpoint.Note),
		manifest.write(x.Dir),
	)
	if err != nil {
		return Manifest{}, err
	}
	return manifest, x.removePartial(before, manifest)
}

// open makes the directory ready and returns the manifest that is there.
func (x *Export) open(next Manifest) (Manifest, error) {
	before, err := ReadManifest(x.Dir)
	if err == nil {
		if before.Origin != next.Origin || before.FirstLogIndex != next.FirstLogIndex || before.Complete && before.Size > next.Size {
			return Manifest{}, fmt.Errorf("%w: %s from log index %d, %d entries", ErrOtherBundle, before.Origin, before.FirstLogIndex, before.Size)
		}
		return before, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, err
	}
	found, err := os.ReadDir(x.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, fmt.Errorf("look into directory: %w", err)
	}
	if len(found) > 0 {
		return Manifest{}, fmt.Errorf("%w: %s", ErrOccupied, x.Dir)
	}
	return next, next.write(x.Dir)
}

// chunks writes events, entry bundles and the lowest tiles, several files at a time.
func (x *Export) chunks(ctx context.Context, store *ledger.Store, m Manifest) error {
	group, ctx := errgroup.WithContext(ctx)
	const usual = 2
	workers := x.Workers
	if workers <= 0 {
		workers = usual
	}
	var next, done atomic.Int64
	next.Store(m.FirstLogIndex)
	finished := make(chan int, workers)
	for range workers {
		group.Go(func() error {
			for ctx.Err() == nil {
				first := next.Add(EventsPerFile) - EventsPerFile
				if first >= m.Size {
					return nil
				}
				if err := x.chunk(ctx, store, first, m.Size); err != nil {
					return err
				}
				finished <- Width(first, m.Size)
			}
			return fmt.Errorf("export: %w", ctx.Err())
		})
	}
	told := make(chan struct{})
	go func() {
		defer close(told)
		for n := range finished {
			if now := done.Add(int64(n)); x.Progress != nil {
				x.Progress(now, m.Events)
			}
		}
	}()
	err := group.Wait()
	close(finished)
	<-told
	return err //nolint:wrapcheck // those of this package
}

// chunk writes one file of events and the tiles below it, unless they are there. The events come last: they vouch for the rest.
func (x *Export) chunk(ctx context.Context, store *ledger.Store, first, size int64) error {
	count := Width(first, size)
	path := inside(x.Dir, EventsPath(first/EventsPerFile, count))
	if there, err := exists(path); there || err != nil {
		return err
	}
	for offset := 0; offset < count; offset += ledger.TileWidth {
		n, width := (first+int64(offset))/ledger.TileWidth, min(ledger.TileWidth, count-offset)
		for level := -1; level <= 0; level++ {
			if err := x.tile(ctx, store, tlog.Tile{H: ledger.TileHeight, L: level, N: n, W: width}); err != nil {
				return err
			}
		}
	}
	list, err := ReadEvents(ctx, x.DB, first, count, size)
	if err != nil {
		return err
	}
	const usual = 1024 // bytes of a line
	text := make([]byte, 0, usual*len(list))
	for i := range list {
		if text, err = list[i].appendLine(text); err != nil {
			return fmt.Errorf("event %s of %s: %w", list[i].ID, list[i].Source, err)
		}
	}
	return writeFile(path, text)
}

func (x *Export) tile(ctx context.Context, store *ledger.Store, tile tlog.Tile) error {
	data, err := store.Tile(ctx, tile)
	if err != nil {
		return fmt.Errorf("export tile: %w", err)
	}
	return writeFile(inside(x.Dir, TilePath(tile)), data)
}

// upperTiles writes the tiles above the lowest level: in a bundle that continues another one, from the one on that has the
// first event in its reach, so that what is in front of it is committed to.
func (x *Export) upperTiles(ctx context.Context, store *ledger.Store, m Manifest) error {
	for _, tile := range UpperTiles(m.FirstLogIndex, m.Size) {
		if tile.W == ledger.TileWidth {
			if there, err := exists(inside(x.Dir, TilePath(tile))); err != nil {
				return err
			} else if there {
				continue
			}
		}
		if err := x.tile(ctx, store, tile); err != nil {
			return err
		}
	}
	return nil
}

// UpperTiles are the tiles above level 0 of a bundle.
func UpperTiles(first, size int64) []tlog.Tile {
	var tiles []tlog.Tile
	for level := 1; size>>(ledger.TileHeight*level) > 0; level++ {
		nodes := size >> (ledger.TileHeight * level)
		for n := first >> (ledger.TileHeight * (level + 1)); n*ledger.TileWidth < nodes; n++ {
			tiles = append(tiles, tlog.Tile{H: ledger.TileHeight, L: level, N: n, W: int(min(ledger.TileWidth, nodes-n*ledger.TileWidth))})
		}
	}
	return tiles
}

// removePartial removes partial files that a grown bundle has no use for.
func (x *Export) removePartial(before, now Manifest) error {
	if !before.Complete || before.Size == now.Size {
		return nil
	}
	var errs []error
	remove := func(path string) {
		if err := os.Remove(inside(x.Dir, path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove partial file: %w", err))
		}
	}
	if count := before.Size % EventsPerFile; count > 0 {
		remove(EventsPath(before.Size/EventsPerFile, int(count)))
	}
	if width := int(before.Size % ledger.TileWidth); width > 0 {
		remove(TilePath(tlog.Tile{L: -1, N: before.Size / ledger.TileWidth, W: width}))
		remove(TilePath(tlog.Tile{L: 0, N: before.Size / ledger.TileWidth, W: width}))
	}
	for _, tile := range UpperTiles(before.FirstLogIndex, before.Size) {
		if tile.W < ledger.TileWidth && now.Size>>(ledger.TileHeight*tile.L) > tile.N*ledger.TileWidth+int64(tile.W) {
			remove(TilePath(tile))
		}
	}
	return errors.Join(errs...)
}
