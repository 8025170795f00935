package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/ledger"
	"novelgate/internal/database"
	"novelgate/internal/system"
)

// Export writes a bundle.
type Export struct {
	// DB is the database with the history, with the settings of database.OpenHistory. Required.
	DB database.Querier
	// Dir is the directory to write to: a new or an empty one, or an earlier export to continue.
	Dir string
	// From is the first log index, rounded down to the beginning of its file. 0: the whole history.
	From int64
	// Workers is the number of chunks that are written concurrently. Default: 2.
	Workers int
	// Now is the clock. Required.
	Now func() time.Time
	// Progress is called with numbers of events as files are written, never concurrently. Default: none.
	Progress func(done, total int64)
}

// Errors of Run.
var (
	// ErrOccupied is returned for a directory with other files.
	ErrOccupied = errors.New("the directory is not empty and holds no bundle")
	// ErrOtherBundle is returned for a bundle of another origin, beginning or history, which stays unchanged.
	ErrOtherBundle = errors.New("the directory holds another bundle")
)

// Run exports the history up to the served checkpoint and returns the manifest. It skips the chunks and the full
// upper tiles that are there, so the same call continues after an error or an interruption. It fails with
// ledger.ErrNotFound if there is no checkpoint yet, and if From is negative or its file begins beyond the checkpoint.
func (x *Export) Run(ctx context.Context) (Manifest, error) {
	store := ledger.NewStore(x.DB)
	checkpoint, err := store.Served(ctx)
	if err != nil {
		return Manifest{}, fmt.Errorf("export: %w", err)
	}
	keys, err := store.SignersOf(ctx, checkpoint)
	if err != nil {
		return Manifest{}, fmt.Errorf("export: %w", err)
	}
	manifest := Manifest{
		Format: bundleFormat, Origin: checkpoint.Origin, FirstLogIndex: x.From - x.From%eventsPerFile,
		Size: checkpoint.Tree.N, LastLogIndex: checkpoint.Tree.N - 1, EventsPerFile: eventsPerFile, ExportedAt: x.Now().UTC(),
	}
	if x.From < 0 || manifest.FirstLogIndex > manifest.Size {
		return Manifest{}, fmt.Errorf("export: log index %d of %d: %w", x.From, manifest.Size, ledger.ErrNotFound)
	}
	manifest.Events = manifest.Size - manifest.FirstLogIndex
	before, err := x.open(ctx, store, manifest, checkpoint)
	if err != nil {
		return Manifest{}, err
	}
	if err := x.writeChunks(ctx, store, manifest); err != nil {
		return Manifest{}, err
	}
	manifest.Complete = true
	for _, step := range []func() error{
		func() error { return x.writeUpperTiles(ctx, store, manifest) },
		func() error { return writeFile(inside(x.Dir, keyFile), []byte(strings.Join(keys, "\n")+"\n")) },
		func() error { return writeFile(inside(x.Dir, checkpointFile), checkpoint.Note) },
		func() error { return syncDirs(x.Dir) }, // before the manifest marks the bundle as complete
		func() error { return manifest.write(x.Dir) },
		func() error { return system.Sync(x.Dir) },
	} {
		if err := step(); err != nil {
			return Manifest{}, err
		}
	}
	return manifest, x.removePartial(before, manifest)
}

// writeUpperTiles writes the tiles above the lowest level. In a bundle that continues another one, they start with the
// tile that covers the first event, so that the bundle commits to the entries before it.
func (x *Export) writeUpperTiles(ctx context.Context, store *ledger.Store, m Manifest) error {
	for _, tile := range upperTiles(m.FirstLogIndex, m.Size) {
		path := inside(x.Dir, tilePath(tile))
		there, err := exists(path)
		if err != nil {
			return err
		}
		if there && tile.W == ledger.TileWidth {
			continue
		}
		data, err := store.Tile(ctx, tile)
		if err != nil {
			return fmt.Errorf("export tile: %w", err)
		}
		if err := writeFile(path, data); err != nil {
			return err
		}
	}
	return nil
}

// upperTiles returns the tiles above the lowest level of a bundle.
func upperTiles(first, size int64) []tlog.Tile {
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

// removePartial removes the partial chunks and tiles of the earlier export, which now have larger successors.
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
	if count := before.Size % eventsPerFile; count > 0 {
		remove(eventsPath(before.Size/eventsPerFile, int(count)))
	}
	if width := int(before.Size % ledger.TileWidth); width > 0 {
		remove(tilePath(tlog.Tile{L: entryBundles, N: before.Size / ledger.TileWidth, W: width}))
		remove(tilePath(tlog.Tile{L: 0, N: before.Size / ledger.TileWidth, W: width}))
	}
	for _, tile := range upperTiles(before.FirstLogIndex, before.Size) {
		if tile.W < ledger.TileWidth && now.Size>>(ledger.TileHeight*tile.L) > tile.N*ledger.TileWidth+int64(tile.W) {
			remove(tilePath(tile))
		}
	}
	return errors.Join(errs...)
}

// open prepares the directory and returns its manifest, which is next in a new bundle. An earlier export is evidence:
// it is continued only if its checkpoint covers the same history.
func (x *Export) open(
	ctx context.Context, store *ledger.Store, next Manifest, signed ledger.Checkpoint,
) (Manifest, error) {
	before, err := readManifest(x.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := x.checkEmpty(); err != nil {
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
		if err := x.checkHistory(ctx, store, before, signed); err != nil {
			return Manifest{}, err
		}
	}
	if before.Complete {
		return before, nil // its checkpoint stays until the new export is complete: the bundle can be verified meanwhile
	}
	// After an interruption, the checkpoint distinguishes this history from another one.
	return before, errors.Join(writeFile(inside(x.Dir, checkpointFile), signed.Note), system.Sync(x.Dir))
}

// checkEmpty fails with ErrOccupied unless the directory is empty.
func (x *Export) checkEmpty() error {
	found, err := os.ReadDir(x.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read directory: %w", err)
	}
	if len(found) > 0 {
		return fmt.Errorf("%w: %s", ErrOccupied, x.Dir)
	}
	return nil
}

// checkHistory fails with ErrOtherBundle unless the exported history continues the history of the bundle.
func (x *Export) checkHistory(
	ctx context.Context, store *ledger.Store, before Manifest, signed ledger.Checkpoint,
) error {
	text, err := os.ReadFile(inside(x.Dir, checkpointFile))
	switch {
	case errors.Is(err, fs.ErrNotExist) && !before.Complete:
		return nil // interrupted before any other file was written
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: its checkpoint is missing, so its history is unknown", ErrOtherBundle)
	case err != nil:
		return fmt.Errorf("read checkpoint of the bundle: %w", err)
	}
	err = store.Extends(ctx, signed, text)
	if errors.Is(err, ledger.ErrForked) {
		return fmt.Errorf("%w: %w", ErrOtherBundle, err)
	}
	if err != nil {
		return fmt.Errorf("compare with the existing bundle: %w", err)
	}
	return nil
}
