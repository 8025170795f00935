package ledger

import (
	"errors"
	"fmt"
	"slices"

	"github.com/transparency-dev/merkle/compact"
	"golang.org/x/mod/sumdb/tlog"
)

const (
	// TileHeight is the height of tiles that C2SP tlog-tiles prescribes.
	TileHeight = 8
	// TileWidth is the number of hashes in a full tile, and of entries in a full bundle.
	TileWidth = 1 << TileHeight
	// levels of tiles cover 2^64 entries.
	levels = 8

	tileSize = TileWidth * tlog.HashSize // bytes of a full tile
)

// ErrDamaged is returned when the stored tree is inconsistent.
var ErrDamaged = errors.New("stored tree is damaged")

// NumberPath returns a number as a path in groups of three digits, as in the paths of tiles: 1234067 is x001/x234/067.
func NumberPath(n int64) string {
	path := fmt.Sprintf("%03d", n%1000)
	for n /= 1000; n > 0; n /= 1000 {
		path = fmt.Sprintf("x%03d/", n%1000) + path
	}
	return path
}

// rfc6962 makes trees with the hashes of RFC 6962. The function of tlog makes two allocations fewer than that of the
// module merkle.
var rfc6962 = compact.RangeFactory{Hash: func(left, right []byte) []byte {
	hash := tlog.NodeHash(tlog.Hash(left), tlog.Hash(right))
	return hash[:]
}}

// Edge is the right edge of a Merkle tree: all that is needed to grow it and to compute its root. Create it with
// NewEdge.
type Edge struct{ nodes *compact.Range }

// NewEdge returns the edge of an empty tree.
func NewEdge() *Edge { return &Edge{nodes: rfc6962.NewEmptyRange(0)} }

// Size is the number of leaves.
func (e *Edge) Size() int64 { return int64(e.nodes.End()) } //nolint:gosec // far below 2^63

// Push appends a complete subtree of 2^level leaves; the size of the tree must be a multiple of 2^level. visit, if not
// nil, is called with the root of the subtree, and then with the roots of the larger subtrees that are now complete.
func (e *Edge) Push(root tlog.Hash, level uint, visit compact.VisitFn) error {
	if level == 0 {
		return e.nodes.Append(root[:], visit)
	}
	begin := e.nodes.End()
	subtree, err := rfc6962.NewRange(begin, begin+1<<level, [][]byte{root[:]})
	if err != nil {
		return fmt.Errorf("append 2^%d leaves to %d: %w", level, begin, err)
	}
	if visit != nil {
		visit(compact.NewNodeID(level, begin>>level), root[:])
	}
	return e.nodes.AppendRange(subtree, visit)
}

// Root is the Merkle tree hash.
func (e *Edge) Root() tlog.Hash {
	if e.Size() == 0 {
		empty, _ := tlog.TreeHash(0, nil) // it never fails
		return empty
	}
	root, _ := e.nodes.GetRootHash(nil) // it fails only for a range that does not start at 0
	return tlog.Hash(root)
}

// Tree is the size and the root.
func (e *Edge) Tree() tlog.Tree { return tlog.Tree{N: e.Size(), Hash: e.Root()} }

// tree is the sealer's part of the Merkle tree: its edge, and the additions since the last take.
type tree struct {
	*Edge
	// tiles has the hashes of the rightmost tile of each level while it is partial.
	tiles  [levels][]byte
	taken  [levels]int // bytes of each tile that take has returned
	pieces []piece     // of full tiles that take has not returned yet
}

// piece is a run of consecutive hashes within one tile.
type piece struct {
	level  int
	first  int64 // number of the first hash within the level
	hashes []byte
}

// add appends a leaf.
func (t *tree) add(leaf tlog.Hash) error { return t.Push(leaf, 0, t.visit) }

// visit adds the root of a complete subtree to its tile, if its level has tiles.
func (t *tree) visit(id compact.NodeID, hash []byte) {
	if id.Level%TileHeight != 0 {
		return
	}
	level := int(id.Level / TileHeight)
	t.tiles[level] = append(t.tiles[level], hash...)
	if len(t.tiles[level]) == tileSize {
		t.cut(level, int64(id.Index)+1-TileWidth) //nolint:gosec // below 2^63
		// A new slice: the piece keeps the old one.
		t.tiles[level], t.taken[level] = make([]byte, 0, tileSize), 0
	}
}

// cut makes a piece of the new hashes in the tile of a level that begins with hash number first.
func (t *tree) cut(level int, first int64) {
	taken := t.taken[level]
	if fresh := t.tiles[level][taken:]; len(fresh) > 0 {
		t.pieces = append(t.pieces, piece{level: level, first: first + int64(taken/tlog.HashSize), hashes: fresh})
		t.taken[level] = len(t.tiles[level])
	}
}

// take returns the new pieces. Later growth does not change them.
func (t *tree) take() []piece {
	for level := range t.tiles {
		t.cut(level, t.Size()>>(TileHeight*level)&^(TileWidth-1))
	}
	pieces := t.pieces
	t.pieces = nil
	return pieces
}

// edgeTiles returns the partial tiles of a tree, the lowest first.
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

// newTree builds the right edge of a tree from its partial tiles, and verifies its root.
func newTree(sealed tlog.Tree, tiles []tlog.Tile, data [][]byte) (*tree, error) {
	t := &tree{Edge: NewEdge()}
	for i, tile := range slices.Backward(tiles) {
		if len(data[i]) != tile.W*tlog.HashSize {
			return nil, fmt.Errorf("%w: tile %s has %d bytes", ErrDamaged, tile.Path(), len(data[i]))
		}
		t.tiles[tile.L] = append(make([]byte, 0, tileSize), data[i]...)
		t.taken[tile.L] = len(data[i])
		for hash := range slices.Chunk(data[i], tlog.HashSize) {
			if err := t.Push(tlog.Hash(hash), uint(TileHeight*tile.L), nil); err != nil {
				return nil, err
			}
		}
	}
	if t.Root() != sealed.Hash {
		return nil, fmt.Errorf("%w: the tiles of %d entries do not have the root on record", ErrDamaged, sealed.N)
	}
	return t, nil
}
