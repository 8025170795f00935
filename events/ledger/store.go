package ledger

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/transparency-dev/formats/proof"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/internal/database"
)

//go:embed tiles.sql
var tilesSQL string

//go:embed entries.sql
var entriesSQL string

// ErrNotFound is returned for what the ledger does not have, or not yet.
var ErrNotFound = errors.New("not in the ledger")

// Store reads the ledger.
type Store struct {
	db database.Querier
}

// NewStore returns a store that reads through db: a pool or a connection.
func NewStore(db database.Querier) *Store { return &Store{db: db} }

// Tile returns the hashes of a tile, W × 32 bytes, or the entry bundle of W entries if tile.L is -1, as C2SP
// tlog-tiles serves them. It fails with ErrNotFound if the tree has no such tile of that width yet.
func (s *Store) Tile(ctx context.Context, tile tlog.Tile) ([]byte, error) {
	if tile.H != TileHeight || tile.W < 1 || tile.W > TileWidth || tile.L >= levels || tile.N < 0 || tile.N > 1<<47 {
		return nil, ErrNotFound
	}
	read := s.tiles
	if tile.L < 0 {
		read = func(ctx context.Context, _ []tlog.Tile) ([][]byte, error) { return s.Bundles(ctx, tile.N, tile.W) }
	}
	tiles, err := read(ctx, []tlog.Tile{tile})
	if err != nil {
		return nil, err
	}
	return tiles[0], nil
}

// Tiles returns the hashes of tiles in one statement, as Tile does.
func (s *Store) Tiles(ctx context.Context, tiles []tlog.Tile) ([][]byte, error) {
	return s.tiles(ctx, tiles)
}

// tiles returns the hashes of tiles, whole.
func (s *Store) tiles(ctx context.Context, tiles []tlog.Tile) ([][]byte, error) {
	tileLevels, nodes, widths := make([]int16, len(tiles)), make([]int64, len(tiles)), make([]int32, len(tiles))
	data := make([][]byte, len(tiles))
	for i, tile := range tiles {
		tileLevels[i], nodes[i], widths[i] = int16(tile.L), tile.N*TileWidth, int32(tile.W) //nolint:gosec // below 8; up to 256
		data[i] = make([]byte, 0, TileWidth*tlog.HashSize)
	}
	rows, err := s.db.Query(ctx, tilesSQL, tileLevels, nodes, widths)
	if err != nil {
		return nil, fmt.Errorf("read tiles: %w", err)
	}
	var i, first int64
	var hashes []byte
	_, err = pgx.ForEachRow(rows, []any{&i, &first, &hashes}, func() error {
		if want := tiles[i-1].N*TileWidth + int64(len(data[i-1])/tlog.HashSize); first != want {
			return fmt.Errorf("%w: level %d goes on with hash %d instead of %d", ErrDamaged, tiles[i-1].L, first, want)
		}
		data[i-1] = append(data[i-1], hashes...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read tiles: %w", err)
	}
	for i, tile := range tiles {
		size := tile.W * tlog.HashSize
		if len(data[i]) < size {
			return nil, fmt.Errorf("tile %s: %w", tile.Path(), ErrNotFound)
		}
		data[i] = data[i][:size]
	}
	return data, nil
}

// Bundles returns so many entries in one statement, from the beginning of bundle n on: as entry bundles, of which the
// last one may not be full. It fails with ErrNotFound if the tree does not have that many.
func (s *Store) Bundles(ctx context.Context, n int64, entries int) ([][]byte, error) {
	rows, err := s.db.Query(ctx, entriesSQL, n*TileWidth, entries)
	if err != nil {
		return nil, fmt.Errorf("read entries: %w", err)
	}
	var bundles [][]byte
	var bundle []byte
	var first int64
	var piece pgtype.DriverBytes
	end, count, before := 0, 0, 0 // of the bundle so far, of all so far, of those in front of the bundle
	_, err = pgx.ForEachRow(rows, []any{&first, &piece}, func() error {
		if want := n*TileWidth + int64(count); first != want {
			return fmt.Errorf("%w: bundle %d goes on with entry %d instead of %d", ErrDamaged, want/TileWidth, first, want)
		}
		bundle = append(bundle, piece...)
		full := min(before+TileWidth, entries)
		for end < len(bundle) && count < full {
			entry, _, ok := cutEntry(bundle[end:])
			if !ok {
				return fmt.Errorf("%w: entry %d is cut off", ErrDamaged, n*TileWidth+int64(count))
			}
			end += lengthSize + len(entry)
			count++
		}
		if count == full {
			bundles = append(bundles, bundle[:end])
			bundle, end, before = make([]byte, 0, end), 0, count
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read entries: %w", err)
	}
	if count < entries {
		return nil, fmt.Errorf("bundle %d: %w", n+int64(count)/TileWidth, ErrNotFound)
	}
	return bundles, nil
}

// loadTree reads the right edge of the tree in a state.
func (s *Store) loadTree(ctx context.Context, at state) (*tree, error) {
	edge := edgeTiles(at.size)
	data, err := s.tiles(ctx, edge)
	if errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return nil, err
	}
	return newTree(at.size, at.root, edge, data)
}

// hashes returns a reader of the hashes of a tree. Whatever it reads is checked against the tree's root.
func (s *Store) hashes(ctx context.Context, root tlog.Tree) tlog.HashReader {
	return tlog.TileHashReader(root, tileReader{ctx: ctx, store: s})
}

// tileReader lets tlog read tiles.
type tileReader struct {
	ctx   context.Context //nolint:containedctx // the interface of tlog has none
	store *Store
}

// Height implements tlog.TileReader.
func (tileReader) Height() int { return TileHeight }

// ReadTiles implements tlog.TileReader.
func (r tileReader) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	return r.store.tiles(r.ctx, tiles)
}

// SaveTiles implements tlog.TileReader. There is nothing to save: they came from the database.
func (tileReader) SaveTiles([]tlog.Tile, [][]byte) {}

// Proof returns the proof that the newest checkpoint covers an entry, in the form of C2SP tlog-proof: index, hashes,
// checkpoint. It fails with ErrNotFound for an index that no checkpoint covers yet.
func (s *Store) Proof(ctx context.Context, logIndex int64) ([]byte, error) {
	c, err := s.Latest(ctx)
	if err != nil {
		return nil, err
	}
	if logIndex < 0 || logIndex >= c.Tree.N {
		return nil, fmt.Errorf("log index %d of %d: %w", logIndex, c.Tree.N, ErrNotFound)
	}
	hashes, err := tlog.ProveRecord(c.Tree.N, logIndex, s.hashes(ctx, c.Tree))
	if err != nil {
		return nil, fmt.Errorf("prove entry %d of %d: %w", logIndex, c.Tree.N, err)
	}
	p := proof.TLogProof{Index: uint64(logIndex), Checkpoint: c.Note}
	for _, hash := range hashes {
		p.Hashes = append(p.Hashes, hash)
	}
	return p.Marshal(), nil
}
