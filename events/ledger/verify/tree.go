package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/ledger"
	"novelgate/events/ledger/bundle"
)

// edge is the right edge of a growing tree: roots of complete subtrees, the largest first (RFC 6962, section 2.1).
type edge struct {
	size  int64
	roots []tlog.Hash
	spans []int64
}

// push appends a complete subtree of span entries, a power of two that the size is a multiple of.
func (t *edge) push(hash tlog.Hash, span int64) {
	t.size += span
	for n := len(t.spans); n > 0 && t.spans[n-1] == span; n = len(t.spans) {
		hash, span = tlog.NodeHash(t.roots[n-1], hash), span*2
		t.roots, t.spans = t.roots[:n-1], t.spans[:n-1]
	}
	t.roots, t.spans = append(t.roots, hash), append(t.spans, span)
}

// root is the Merkle tree hash.
func (t *edge) root() tlog.Hash {
	if len(t.roots) == 0 {
		empty, _ := tlog.TreeHash(0, nil)
		return empty
	}
	hash := t.roots[len(t.roots)-1]
	for i := len(t.roots) - 2; i >= 0; i-- {
		hash = tlog.NodeHash(t.roots[i], hash)
	}
	return hash
}

// rootOf is the root of a full tile.
func rootOf(hashes []tlog.Hash) tlog.Hash {
	var t edge
	for _, hash := range hashes {
		t.push(hash, 1)
	}
	return t.root()
}

// grow adds the entries of a chunk, stopping at the sizes of kept checkpoints. It reports whether all were there.
func (v *verification) grow(ctx context.Context, c *chunk) error {
	for offset := 0; offset < len(c.leaves); offset += ledger.TileWidth {
		part := c.leaves[offset:min(offset+ledger.TileWidth, len(c.leaves))]
		end := v.edge.size + int64(len(part))
		if n := offset / ledger.TileWidth; len(part) == ledger.TileWidth && !v.keptInside(v.edge.size, end) {
			v.edge.push(c.roots[n], ledger.TileWidth)
			v.compareKept()
		} else {
			for _, leaf := range part {
				v.edge.push(leaf, 1)
				v.compareKept()
			}
		}
		if len(part) == ledger.TileWidth {
			if err := v.growTiles(ctx, c, 1, c.roots[offset/ledger.TileWidth]); err != nil {
				return err
			}
		}
	}
	v.stained = v.stained || c.faulty(Entry)
	v.broken = v.broken || int64(len(c.leaves)) < c.end-c.first
	return nil
}

// growTiles adds a hash to a level of hash tiles, and compares tiles that are full.
func (v *verification) growTiles(ctx context.Context, c *chunk, level int, hash tlog.Hash) error {
	for len(v.tiles) <= level {
		v.tiles = append(v.tiles, nil)
	}
	v.tiles[level] = append(v.tiles[level], hash)
	if len(v.tiles[level]) < ledger.TileWidth {
		return nil
	}
	full := v.tiles[level]
	v.tiles[level] = nil
	if err := v.compareTile(ctx, c, level, c.end-1, full); err != nil {
		return err
	}
	return v.growTiles(ctx, c, level+1, rootOf(full))
}

// compareTile holds the hashes of a tile that covers an entry against what is stored.
func (v *verification) compareTile(ctx context.Context, c *chunk, level int, index int64, hashes []tlog.Hash) error {
	if v.broken || v.stained || c.faulty(Entry) {
		return nil // it cannot fit, and there is something better to say
	}
	tile := tlog.Tile{H: ledger.TileHeight, L: level, N: index >> (ledger.TileHeight * (level + 1)), W: len(hashes)}
	data, err := v.read(ctx, tile)
	if err != nil {
		return err
	}
	for i := range hashes {
		if len(data) != len(hashes)*tlog.HashSize || !bytes.Equal(data[i*tlog.HashSize:][:tlog.HashSize], hashes[i][:]) {
			first := (tile.N*ledger.TileWidth + int64(i)) << (ledger.TileHeight * level)
			c.fault(Tile, first, nil, fmt.Sprintf("hash %d of the tile %s is not that of the %d entries from here on", i,
				bundle.TilePath(tile),
				int64(1)<<(ledger.TileHeight*level)))
			return nil
		}
	}
	return nil
}

func (c *chunk) faulty(part Part) bool {
	for i := range c.faults {
		if c.faults[i].Part == part {
			return true
		}
	}
	return false
}

var errPrefix = errors.New("the hash tiles do not tell what is in front of the first event")

// begin puts together the edge of what is in front of the first event, from hash tiles. The root will tell whether they
// are right.
func (v *verification) begin(ctx context.Context) error {
	first := v.source.First()
	for level := 7; level >= 1; level-- {
		nodes := first >> (ledger.TileHeight * level)
		width := int(nodes % ledger.TileWidth)
		if width == 0 {
			continue
		}
		all := v.tree.N >> (ledger.TileHeight * level)
		n := nodes / ledger.TileWidth
		data, err := v.read(ctx,
			tlog.Tile{H: ledger.TileHeight, L: level, N: n, W: int(min(ledger.TileWidth, all-n*ledger.TileWidth))})
		if err != nil {
			return err
		}
		if len(data) < width*tlog.HashSize {
			return errPrefix
		}
		for len(v.tiles) <= level {
			v.tiles = append(v.tiles, nil)
		}
		for i := range width {
			hash := tlog.Hash(data[i*tlog.HashSize:][:tlog.HashSize])
			v.edge.push(hash, int64(1)<<(ledger.TileHeight*level))
			v.tiles[level] = append(v.tiles[level], hash)
		}
	}
	return nil
}
