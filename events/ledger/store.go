package ledger

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"
	"github.com/transparency-dev/formats/proof"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/eventlog"
	"novelgate/internal/database"
)

//go:embed tiles.sql
var tilesSQL string

// ErrNotFound is returned for a tile, entry, proof or checkpoint that the ledger does not have, or not yet.
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
	if tile.L < 0 {
		return s.bundle(ctx, tile.N*TileWidth, tile.W)
	}
	tiles, err := s.Tiles(ctx, []tlog.Tile{tile})
	if err != nil {
		return nil, err
	}
	return tiles[0], nil
}

// Tiles returns the hashes of several tiles, as Tile does, with one statement.
func (s *Store) Tiles(ctx context.Context, tiles []tlog.Tile) ([][]byte, error) {
	tileLevels, nodes, widths := make([]int16, len(tiles)), make([]int64, len(tiles)), make([]int32, len(tiles))
	data := make([][]byte, len(tiles))
	for i, tile := range tiles {
		tileLevels[i], nodes[i], widths[i] = int16(tile.L), tile.N*TileWidth, int32(tile.W) //nolint:gosec // below 8; up to 256
		data[i] = make([]byte, 0, tileSize)
	}
	rows, _ := s.db.Query(ctx, tilesSQL, tileLevels, nodes, widths) // ForEachRow returns its error
	var i, first int64
	var hashes []byte
	_, err := pgx.ForEachRow(rows, []any{&i, &first, &hashes}, func() error {
		if want := tiles[i-1].N*TileWidth + int64(len(data[i-1])/tlog.HashSize); first != want {
			return fmt.Errorf("%w: level %d continues with hash %d instead of %d", ErrDamaged, tiles[i-1].L, first, want)
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

// eventsSQL reads a range of the log. $1: first log index, $2: end, exclusive.
const eventsSQL = `SELECT ` + eventlog.Columns + `
FROM events WHERE log_index >= $1 AND log_index < $2 ORDER BY log_index`

// Events returns the rows of the log from log index first on and before end, in order. Missing events are left out. A
// row and its bytes are valid until the next one.
func (s *Store) Events(ctx context.Context, first, end int64) iter.Seq2[*eventlog.Row, error] {
	return eventlog.Rows(ctx, s.db, eventsSQL, first, end)
}

// bundle makes an entry bundle from events. It fails with ErrNotFound if they are not sealed, and with ErrDamaged if
// one of them is missing.
func (s *Store) bundle(ctx context.Context, first int64, width int) (bundle []byte, err error) {
	next, end := first, first+int64(width)
	tree, err := s.Tree(ctx)
	if err != nil {
		return nil, err
	}
	if end > tree.N {
		return nil, fmt.Errorf("entries %d to %d: %w", first, end-1, ErrNotFound)
	}
	const typicalEntry = 300 // bytes
	bundle = make([]byte, 0, width*typicalEntry)
	var entry []byte
	for row, err := range s.Events(ctx, first, end) {
		if err != nil {
			return nil, fmt.Errorf("read events from log index %d: %w", first, err)
		}
		if row.LogIndex > next {
			break // an event is missing
		}
		if entry, err = AppendEntry(entry[:0], row); err != nil {
			return nil, err
		}
		bundle = AppendToBundle(bundle, entry)
		next++
	}
	if next < end {
		return nil, fmt.Errorf("%w: the log does not have the event of log index %d", ErrDamaged, next)
	}
	return bundle, nil
}

// loadTree reads the right edge of the sealed tree.
func (s *Store) loadTree(ctx context.Context, sealed tlog.Tree) (*tree, error) {
	edge := edgeTiles(sealed.N)
	data, err := s.Tiles(ctx, edge)
	if errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return nil, err
	}
	return newTree(sealed, edge, data)
}

// Hashes returns a reader of the hashes of a tree. It verifies every hash against the root.
func (s *Store) Hashes(ctx context.Context, root tlog.Tree) tlog.HashReader {
	return tlog.TileHashReader(root, TileReader(func(tiles []tlog.Tile) ([][]byte, error) { return s.Tiles(ctx, tiles) }))
}

// TileReader is a tlog.TileReader that reads tiles with a function.
type TileReader func(tiles []tlog.Tile) ([][]byte, error)

// Height implements tlog.TileReader.
func (TileReader) Height() int { return TileHeight }

// ReadTiles implements tlog.TileReader.
func (r TileReader) ReadTiles(tiles []tlog.Tile) ([][]byte, error) { return r(tiles) }

// SaveTiles implements tlog.TileReader. It does nothing, because there is no cache.
func (TileReader) SaveTiles([]tlog.Tile, [][]byte) {}

// Proof returns the proof that the checkpoint of Served covers an entry, in the form of C2SP tlog-proof: the entry as
// extra data, index, hashes, checkpoint. CheckProof checks it. It fails with ErrNotFound for an index that
// this checkpoint does not cover.
func (s *Store) Proof(ctx context.Context, logIndex int64) ([]byte, error) {
	c, err := s.Served(ctx)
	if err != nil {
		return nil, err
	}
	if logIndex < 0 || logIndex >= c.Tree.N {
		return nil, fmt.Errorf("log index %d of %d: %w", logIndex, c.Tree.N, ErrNotFound)
	}
	hashes, err := tlog.ProveRecord(c.Tree.N, logIndex, s.Hashes(ctx, c.Tree))
	if err != nil {
		return nil, fmt.Errorf("prove entry %d of %d: %w", logIndex, c.Tree.N, err)
	}
	bundle, err := s.bundle(ctx, logIndex, 1)
	if err != nil {
		return nil, err
	}
	p := proof.TLogProof{Index: uint64(logIndex), Checkpoint: c.Note, ExtraData: bundle[lengthSize:]}
	for _, hash := range hashes {
		p.Hashes = append(p.Hashes, hash)
	}
	return p.Marshal(), nil
}
