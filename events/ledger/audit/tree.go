package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/transparency-dev/merkle/compact"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/ledger"
)

// tree is a Merkle tree that grows from left to right.
type tree struct {
	edge   *ledger.Edge
	upper  [8][]tlog.Hash      // hashes of the last tile of each level above the lowest, while it is partial
	broken bool                // a leaf is missing, so the tree cannot grow
	rootAt map[int64]tlog.Hash // of the empty tree, and at the sizes of the comparisons that it has reached
}

func newTree() *tree {
	edge := ledger.NewEdge()
	return &tree{edge: edge, rootAt: map[int64]tlog.Hash{0: edge.Root()}}
}

// push adds a complete subtree.
func (t *tree) push(root tlog.Hash, height uint) error {
	return t.edge.Push(root, height, func(id compact.NodeID, hash []byte) {
		if level := id.Level / ledger.TileHeight; level > 0 && id.Level%ledger.TileHeight == 0 {
			t.upper[level] = append(t.upper[level], tlog.Hash(hash))
		}
	})
}

// hasSignedRoot reports whether a tree has the signed root.
func (v *verification) hasSignedRoot(t *tree) bool {
	return !t.broken && t.edge.Root() == v.signed.Hash
}

// keepRoot keeps the root of a tree if a comparison has the tree's current size.
func (v *verification) keepRoot(t *tree) {
	size := t.edge.Size()
	if slices.ContainsFunc(v.comparisons, func(c comparison) bool { return c.signed.N == size }) {
		t.rootAt[size] = t.edge.Root()
	}
}

// rootOf returns the root of a full tile.
func rootOf(hashes []tlog.Hash) tlog.Hash {
	nodes := slices.Clone(hashes)
	for len(nodes) > 1 {
		for i := range len(nodes) / 2 {
			nodes[i] = tlog.NodeHash(nodes[2*i], nodes[2*i+1])
		}
		nodes = nodes[:len(nodes)/2]
	}
	return nodes[0]
}

// grow adds the leaves of a chunk to both trees, and compares the hash tiles above the lowest level as they become
// full.
func (v *verification) grow(ctx context.Context, c *chunk) error {
	v.tilesDiffer = v.tilesDiffer || c.tilesDiffer
	for start := c.first; start < c.end; start += ledger.TileWidth {
		width := int(min(ledger.TileWidth, c.end-start))
		offset := int(start - c.first)
		if err := v.growTree(v.entryTree, &c.entryLeaves, offset, width); err != nil {
			return err
		}
		if err := v.growTree(v.tileTree, &c.tileLeaves, offset, width); err != nil {
			return err
		}
		if err := v.compareTiles(ctx, c, start, ledger.TileWidth); err != nil {
			return err
		}
	}
	return nil
}

// growTree adds the leaves of one tile to a tree, up to the first missing leaf. It adds the root of a full tile instead
// of its leaves, unless a comparison needs a root inside the tile.
func (v *verification) growTree(t *tree, l *leaves, offset, width int) error {
	if t.broken {
		return nil
	}
	subtrees, height := l.hashes[min(offset, len(l.hashes)):min(offset+width, len(l.hashes))], uint(0)
	t.broken = len(subtrees) < width
	if size := t.edge.Size(); len(subtrees) == ledger.TileWidth && !v.comparesInside(size, size+ledger.TileWidth) {
		subtrees, height = l.roots[offset/ledger.TileWidth:][:1], ledger.TileHeight
	}
	for _, hash := range subtrees {
		if err := t.push(hash, height); err != nil {
			return err
		}
		v.keepRoot(t)
	}
	return nil
}

// compareTiles compares the computed tiles above the lowest level with the stored ones, and then begins the next tiles.
// It takes the tiles with at least width hashes; index is a log index that they cover. After a difference between
// entries and lowest hash tiles, which is reported already, it does not compare, because the tiles above may differ,
// too.
func (v *verification) compareTiles(ctx context.Context, c *chunk, index int64, width int) error {
	t := v.tileTree
	if t.broken {
		t = v.entryTree
	}
	for level, hashes := range t.upper {
		if len(hashes) < width || len(hashes) == 0 {
			continue
		}
		v.entryTree.upper[level], v.tileTree.upper[level] = nil, nil
		if t.broken || v.tilesDiffer {
			continue
		}
		tile := tlog.Tile{H: ledger.TileHeight, L: level, N: index >> (ledger.TileHeight * (level + 1)), W: len(hashes)}
		data, err := read(ctx, v.Source, tile)
		if err != nil {
			return err
		}
		c.compareTile(tile, data, hashes)
	}
	return nil
}

// compareTile compares a stored tile with its computed hashes. It reports the first hash that differs, and of a tile of
// another length the first hash.
func (c *chunk) compareTile(tile tlog.Tile, data []byte, hashes []tlog.Hash) {
	for i := range hashes {
		if len(data) == len(hashes)*tlog.HashSize && bytes.Equal(data[i*tlog.HashSize:][:tlog.HashSize], hashes[i][:]) {
			continue
		}
		span := int64(1) << (ledger.TileHeight * tile.L)
		c.fault(Fault{Part: Tile, Detail: fmt.Sprintf("hash %d of the tile %s is not that of the %d entries from here on",
			i, tilePath(tile), span)}, (tile.N*ledger.TileWidth+int64(i))*span, nil)
		return
	}
}

var errNoPrefix = errors.New("the hash tiles of the entries before the first event are incomplete")

// readPrefix reads the part of the trees before the first event from hash tiles. The comparison of the root verifies
// it.
func (v *verification) readPrefix(ctx context.Context) error {
	first := v.Source.First()
	for level := len(v.entryTree.upper) - 1; level >= 1; level-- {
		nodes := first >> (ledger.TileHeight * level)
		width := int(nodes % ledger.TileWidth)
		if width == 0 {
			continue
		}
		start := nodes - int64(width)
		data, err := read(ctx, v.Source, tileAt(level, start, v.signed.N>>(ledger.TileHeight*level)))
		if err != nil {
			return err
		}
		if len(data) < width*tlog.HashSize {
			return errNoPrefix
		}
		for i := range width {
			hash := tlog.Hash(data[i*tlog.HashSize:][:tlog.HashSize])
			for _, t := range []*tree{v.entryTree, v.tileTree} {
				if err := t.push(hash, uint(ledger.TileHeight*level)); err != nil {
					return err
				}
			}
		}
	}
	v.keepRoot(v.entryTree)
	v.keepRoot(v.tileTree)
	return nil
}
