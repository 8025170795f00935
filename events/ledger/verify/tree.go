package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/transparency-dev/merkle/compact"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/ledger"
	"novelgate/events/ledger/bundle"
)

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

// grow adds the entries of a chunk to the tree. It compares roots at the sizes of kept checkpoints, and compares full
// hash tiles. It adds nothing after missing entries.
func (v *verification) grow(ctx context.Context, c *chunk) error {
	if v.broken {
		v.stained = v.stained || c.faulty(Entry)
		return nil
	}
	for offset := 0; offset < len(c.leaves); offset += ledger.TileWidth {
		subtrees, height := c.leaves[offset:min(offset+ledger.TileWidth, len(c.leaves))], uint(0)
		end := v.edge.Size() + int64(len(subtrees))
		if len(subtrees) == ledger.TileWidth && !v.keptInside(v.edge.Size(), end) {
			subtrees, height = c.roots[offset/ledger.TileWidth:][:1], ledger.TileHeight
		}
		for _, hash := range subtrees {
			if err := v.edge.Push(hash, height, v.putInTile); err != nil {
				return err //nolint:wrapcheck // its text is sufficient
			}
			v.compareKept()
		}
		for level, hashes := range v.tiles {
			if len(hashes) < ledger.TileWidth {
				continue
			}
			v.tiles[level] = nil
			if err := v.compareTile(ctx, c, level, c.first+int64(offset), hashes); err != nil {
				return err
			}
		}
	}
	v.stained = v.stained || c.faulty(Entry)
	v.broken = v.broken || int64(len(c.leaves)) < c.end-c.first
	return nil
}

// putInTile adds the root of a complete subtree to its tile above the lowest level, if it has one.
func (v *verification) putInTile(id compact.NodeID, hash []byte) {
	if level := id.Level / ledger.TileHeight; level > 0 && id.Level%ledger.TileHeight == 0 {
		v.tiles[level] = append(v.tiles[level], tlog.Hash(hash))
	}
}

// compareTile compares the computed hashes of a tile with the stored ones.
func (v *verification) compareTile(ctx context.Context, c *chunk, level int, index int64, hashes []tlog.Hash) error {
	if v.broken || v.stained || c.faulty(Entry) {
		return nil // it cannot match, and the cause is already reported
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

// begin reads the hashes of the tree before the first event from hash tiles. The comparison of the root shows whether
// they are right.
func (v *verification) begin(ctx context.Context) error {
	first := v.source.First()
	for level := len(v.tiles) - 1; level >= 1; level-- {
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
		for i := range width {
			hash := tlog.Hash(data[i*tlog.HashSize:][:tlog.HashSize])
			if err := v.edge.Push(hash, uint(ledger.TileHeight*level), v.putInTile); err != nil {
				return err //nolint:wrapcheck // its text is sufficient
			}
		}
	}
	return nil
}
