package ledger

import (
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

const (
	// TileHeight is the height of tiles that C2SP tlog-tiles prescribes.
	TileHeight = 8
	// TileWidth is the number of hashes in a full tile, and of entries in a full bundle.
	TileWidth = 1 << TileHeight
	// levels of tiles cover 2^64 entries.
	levels = 8
)

// ErrDamaged is returned when what is stored of the tree contradicts itself.
var ErrDamaged = errors.New("stored tree is damaged")

// tree is the right edge of a Merkle tree: all that is needed to grow it and to compute its root.
type tree struct {
	size int64
	// edge has the hashes of the rightmost tile of each level as long as it is partial.
	edge [levels][]byte
}

// piece is a run of consecutive hashes within one tile.
type piece struct {
	level  int
	first  int64 // number of the first hash within the level
	hashes []byte
}

// grower adds leaves to a tree and collects what is new.
type grower struct {
	*tree
	from   [levels]int // how many hashes of the edge were there before
	pieces []piece
}

func (t *tree) grow() *grower {
	g := &grower{tree: t}
	for level := range t.edge {
		g.from[level] = len(t.edge[level])
	}
	return g
}

// add appends a leaf.
func (g *grower) add(leaf tlog.Hash) error {
	g.size++
	for level, hash := 0, leaf; ; level++ {
		g.edge[level] = append(g.edge[level], hash[:]...)
		if len(g.edge[level]) < TileWidth*tlog.HashSize {
			return nil
		}
		var err error
		if hash, err = tileRoot(g.edge[level]); err != nil {
			return err
		}
		g.cut(level, g.size>>(TileHeight*level)-TileWidth)
		// A new slice: the piece keeps the old one.
		g.edge[level] = make([]byte, 0, TileWidth*tlog.HashSize)
		g.from[level] = 0
	}
}

// tileRoot is the hash that a full tile has in the level above.
func tileRoot(data []byte) (tlog.Hash, error) {
	tile := tlog.Tile{H: TileHeight, L: 0, N: 0, W: TileWidth}
	left, errLeft := tlog.HashFromTile(tile, data, tlog.StoredHashIndex(TileHeight-1, 0))
	right, errRight := tlog.HashFromTile(tile, data, tlog.StoredHashIndex(TileHeight-1, 1))
	if err := errors.Join(errLeft, errRight); err != nil {
		return tlog.Hash{}, fmt.Errorf("hash tile: %w", err)
	}
	return tlog.NodeHash(left, right), nil
}

// cut makes a piece of what is new in the edge of a level, whose tile begins with hash number first.
func (g *grower) cut(level int, first int64) {
	from := g.from[level]
	if fresh := g.edge[level][from:]; len(fresh) > 0 {
		g.pieces = append(g.pieces, piece{level: level, first: first + int64(from/tlog.HashSize), hashes: fresh})
	}
}

// finish returns all that is new. The pieces must not be changed by growing on: they are copied where that could be.
func (g *grower) finish() []piece {
	full := len(g.pieces)
	for level := range g.edge {
		g.cut(level, g.size>>(TileHeight*level)&^(TileWidth-1))
	}
	for i := range g.pieces[full:] {
		p := &g.pieces[full+i]
		p.hashes = append([]byte(nil), p.hashes...)
	}
	return g.pieces
}

// root is the Merkle tree hash.
func (t *tree) root() (tlog.Hash, error) {
	root, err := tlog.TreeHash(t.size, tlog.HashReaderFunc(t.readHashes))
	if err != nil {
		return tlog.Hash{}, fmt.Errorf("compute root: %w", err)
	}
	return root, nil
}

// readHashes looks hashes up in the edge.
func (t *tree) readHashes(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		tile := tlog.TileForIndex(TileHeight, index)
		if tile.L >= levels || tile.N != t.size>>(TileHeight*tile.L)>>TileHeight {
			return nil, fmt.Errorf("%w: hash %d is not in the edge of %d entries", ErrDamaged, index, t.size)
		}
		edge := t.edge[tile.L]
		tile.W = len(edge) / tlog.HashSize
		var err error
		if hashes[i], err = tlog.HashFromTile(tile, edge, index); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	return hashes, nil
}

// edgeTiles are the partial tiles of a tree.
func edgeTiles(size int64) []tlog.Tile {
	var tiles []tlog.Tile
	for level := range levels {
		nodes := size >> (TileHeight * level)
		if width := int(nodes % TileWidth); width > 0 {
			tiles = append(tiles, tlog.Tile{H: TileHeight, L: level, N: nodes / TileWidth, W: width})
		}
	}
	return tiles
}

// newTree puts the right edge of a tree together from its partial tiles, and checks that it has this root.
func newTree(size int64, root tlog.Hash, tiles []tlog.Tile, data [][]byte) (*tree, error) {
	t := &tree{size: size}
	for i, tile := range tiles {
		if len(data[i]) != tile.W*tlog.HashSize {
			return nil, fmt.Errorf("%w: tile %s has %d bytes", ErrDamaged, tile.Path(), len(data[i]))
		}
		t.edge[tile.L] = append(make([]byte, 0, TileWidth*tlog.HashSize), data[i]...)
	}
	computed, err := t.root()
	if err != nil {
		return nil, err
	}
	if computed != root {
		return nil, fmt.Errorf("%w: the tiles of %d entries do not have the root on record", ErrDamaged, size)
	}
	return t, nil
}
