package bundle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/ledger"
	"novelgate/internal/database"
)

// Export writes a bundle.
type Export struct {
	// DB is where the history is, with the settings of database.OpenHistory. Required.
	DB database.Querier
	// Dir is the directory to write to: a new one, an empty one, or one that an earlier export has written, which is added
	// to.
	Dir string
	// From is the log index to start with, rounded down to the beginning of its file. 0: the whole history.
	From int64
	// Workers is how many files are written at a time. Default: 2.
	Workers int
	// Now is the clock. Required.
	Now func() time.Time
	// Progress is called as files are written, from one goroutine at a time or not at all. Default: nobody is told.
	Progress func(done, total int64)

	settleFiles int // how many are put on the disk together; 0: the usual number
}

// Errors of Run.
var (
	// ErrOccupied is returned for a directory that has something else in it.
	ErrOccupied = errors.New("the directory is not empty and holds no bundle")
	// ErrOtherBundle is returned for a bundle of another origin, beginning or history. Nothing of it was changed then.
	ErrOtherBundle = errors.New("the directory holds another bundle")
)

// Run exports up to the newest checkpoint and returns the manifest. Only what is not there yet is read and written.
// After an error or an interruption the same call goes on. It fails with ledger.ErrNotFound while nothing was signed.
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
	before, err := x.open(ctx, store, manifest, checkpoint)
	if err != nil {
		return Manifest{}, err
	}
	made := newDirs()
	if err := x.chunks(ctx, store, manifest, made); err != nil {
		return Manifest{}, err
	}
	manifest.Complete = true
	for _, step := range []func() error{
		func() error { return x.upperTiles(ctx, store, manifest, made) },
		func() error { return writeFile(inside(x.Dir, KeyFile), []byte(strings.Join(keys, "\n")+"\n")) },
		func() error { return writeFile(inside(x.Dir, CheckpointFile), checkpoint.Note) },
		func() error { return made.sync(x.Dir) }, // all names that the manifest vouches for
		func() error { return manifest.write(x.Dir) },
		func() error { return syncFile(x.Dir) },
	} {
		if err := step(); err != nil {
			return Manifest{}, err
		}
	}
	return manifest, x.removePartial(before, manifest)
}

// upperTiles writes the tiles above the lowest level: in a bundle that continues another one, from the one on that has
// the first event in its reach, so that what is in front of it is committed to.
func (x *Export) upperTiles(ctx context.Context, store *ledger.Store, m Manifest, made *dirs) error {
	for _, tile := range UpperTiles(m.FirstLogIndex, m.Size) {
		if tile.W == ledger.TileWidth {
			if there, err := exists(inside(x.Dir, TilePath(tile))); err != nil {
				return err
			} else if there {
				continue
			}
		}
		data, err := store.Tile(ctx, tile)
		if err != nil {
			return fmt.Errorf("export tile: %w", err)
		}
		path := inside(x.Dir, TilePath(tile))
		if err := errors.Join(made.make(filepath.Dir(path)), writeFile(path, data)); err != nil {
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
			tiles = append(tiles,
				tlog.Tile{H: ledger.TileHeight, L: level, N: n, W: int(min(ledger.TileWidth, nodes-n*ledger.TileWidth))})
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

// open makes the directory ready and returns the manifest that is there. What an earlier export has written is
// evidence: it is added to only if the checkpoint that came with it covers the same history.
func (x *Export) open(
	ctx context.Context, store *ledger.Store, next Manifest, signed ledger.Checkpoint,
) (Manifest, error) {
	before, err := ReadManifest(x.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := x.vacant(); err != nil {
			return Manifest{}, err
		}
		if err := next.write(x.Dir); err != nil {
			return Manifest{}, err
		}
		before = next
	case err != nil:
		return Manifest{}, err
	case before.Origin != next.Origin || before.FirstLogIndex != next.FirstLogIndex ||
		before.Complete && before.Size > next.Size:
		return Manifest{},
			fmt.Errorf("%w: %s from log index %d, %d entries", ErrOtherBundle, before.Origin, before.FirstLogIndex, before.Size)
	default:
		if err := x.sameHistory(ctx, store, before, signed); err != nil {
			return Manifest{}, err
		}
	}
	if before.Complete {
		return before, nil // and can be verified as it is until there is a newer one
	}
	// What an interruption leaves can be told from another history by this.
	return before, errors.Join(writeFile(inside(x.Dir, CheckpointFile), signed.Note), syncFile(x.Dir))
}

// vacant fails with ErrOccupied if something is in the directory.
func (x *Export) vacant() error {
	found, err := os.ReadDir(x.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look into directory: %w", err)
	}
	if len(found) > 0 {
		return fmt.Errorf("%w: %s", ErrOccupied, x.Dir)
	}
	return nil
}

// sameHistory fails with ErrOtherBundle unless the history that is exported is the one of the bundle, grown on.
func (x *Export) sameHistory(
	ctx context.Context, store *ledger.Store, before Manifest, signed ledger.Checkpoint,
) error {
	text, err := os.ReadFile(inside(x.Dir, CheckpointFile))
	switch {
	case errors.Is(err, fs.ErrNotExist) && !before.Complete:
		return nil // it was interrupted before anything else was written
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: its checkpoint is missing, so that nothing tells of which history it is", ErrOtherBundle)
	case err != nil:
		return fmt.Errorf("read checkpoint of the bundle: %w", err)
	}
	err = store.Extends(ctx, signed, text)
	if errors.Is(err, ledger.ErrForked) {
		return fmt.Errorf("%w: %w", ErrOtherBundle, err)
	}
	if err != nil {
		return fmt.Errorf("compare with the bundle that is there: %w", err)
	}
	return nil
}
