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

// The verification builds two trees: one from the entries, one from the lowest hash tiles. Where they differ, the tree
// with the signed root shows what was changed.
const (
	entryTree = iota
	tileTree
	trees
)

// tree is a Merkle tree that grows from left to right.
type tree struct {
	edge   *ledger.Edge
	upper  [8][]tlog.Hash // hashes of the last tile of each level above the lowest, while it is partial
	broken bool           // a leaf is missing, so the tree cannot grow
}

// push adds a complete subtree.
func (t *tree) push(root tlog.Hash, height uint) error {
	return t.edge.Push(root, height, func(id compact.NodeID, hash []byte) {
		if level := id.Level / ledger.TileHeight; level > 0 && id.Level%ledger.TileHeight == 0 {
			t.upper[level] = append(t.upper[level], tlog.Hash(hash))
		}
	})
}

// hasRoot reports whether the tree has the signed root.
func (v *verification) hasRoot(t int) bool {
	return !v.trees[t].broken && v.trees[t].edge.Root() == v.tree.Hash
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

// grow adds the leaves of a chunk to both trees. It compares roots at the sizes of kept checkpoints, and compares the
// hash tiles above the lowest level as they become full.
func (v *verification) grow(ctx context.Context, c *chunk) error {
	v.tilesDiffer = v.tilesDiffer || c.tilesDiffer
	for start := c.first; start < c.end; start += ledger.TileWidth {
		width := int(min(ledger.TileWidth, c.end-start))
		for t := range trees {
			if err := v.growTree(t, c, int(start-c.first), width); err != nil {
				return err
			}
		}
		if err := v.compareTiles(ctx, c, start, ledger.TileWidth); err != nil {
			return err
		}
	}
	return nil
}

// growTree adds the leaves of one tile to a tree, up to the first missing leaf.
func (v *verification) growTree(number int, c *chunk, offset, width int) error {
	t := v.trees[number]
	if t.broken {
		return nil
	}
	leaves := c.leaves[number]
	subtrees, height := leaves[min(offset, len(leaves)):min(offset+width, len(leaves))], uint(0)
	t.broken = len(subtrees) < width
	if size := t.edge.Size(); len(subtrees) == ledger.TileWidth && !v.keptInside(size, size+ledger.TileWidth) {
		subtrees, height = c.roots[number][offset/ledger.TileWidth:][:1], ledger.TileHeight
	}
	for _, hash := range subtrees {
		if err := t.push(hash, height); err != nil {
			return err
		}
		v.compareKept(number)
	}
	return nil
}

// compareTiles compares the computed tiles above the lowest level that have at least width hashes and cover a log index
// with the stored ones, and then begins the next ones. After a difference between entries and lowest hash tiles, which
// is reported already, it does not compare, because the tiles above may differ, too.
func (v *verification) compareTiles(ctx context.Context, c *chunk, index int64, width int) error {
	t := v.trees[tileTree]
	if t.broken {
		t = v.trees[entryTree]
	}
	for level, hashes := range t.upper {
		if len(hashes) < width || len(hashes) == 0 {
			continue
		}
		for i := range v.trees {
			v.trees[i].upper[level] = nil
		}
		if t.broken || v.tilesDiffer {
			continue
		}
		tile := tlog.Tile{H: ledger.TileHeight, L: level, N: index >> (ledger.TileHeight * (level + 1)), W: len(hashes)}
		data, err := read(ctx, v.Source, tile)
		if err != nil {
			return err
		}
		for i := range hashes {
			if len(data) == len(hashes)*tlog.HashSize && bytes.Equal(data[i*tlog.HashSize:][:tlog.HashSize], hashes[i][:]) {
				continue
			}
			span := int64(1) << (ledger.TileHeight * level)
			c.fault(Fault{Part: Tile, Detail: fmt.Sprintf("hash %d of the tile %s is not that of the %d entries from here on",
				i, tilePath(tile), span)}, (tile.N*ledger.TileWidth+int64(i))*span, nil)
			break
		}
	}
	return nil
}

var errNoPrefix = errors.New("the hash tiles of the entries before the first event are incomplete")

// readPrefix reads the part of the trees before the first event from hash tiles. The comparison of the root verifies
// it.
func (v *verification) readPrefix(ctx context.Context) error {
	first := v.Source.First()
	for level := len(v.trees[0].upper) - 1; level >= 1; level-- {
		nodes := first >> (ledger.TileHeight * level)
		width := int(nodes % ledger.TileWidth)
		if width == 0 {
			continue
		}
		start := nodes - int64(width)
		data, err := read(ctx, v.Source, tileAt(level, start, v.tree.N>>(ledger.TileHeight*level)))
		if err != nil {
			return err
		}
		if len(data) < width*tlog.HashSize {
			return errNoPrefix
		}
		for i := range width {
			hash := tlog.Hash(data[i*tlog.HashSize:][:tlog.HashSize])
			for _, t := range v.trees {
				if err := t.push(hash, uint(ledger.TileHeight*level)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
