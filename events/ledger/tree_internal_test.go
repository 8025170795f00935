package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"novelgate/internal/testdb"
)

// NaiveRoot computes the Merkle tree hash as defined in RFC 6962, section 2.1.
func NaiveRoot(leaves [][32]byte) [32]byte {
	switch len(leaves) {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return leaves[0]
	}
	k := 1
	for k*2 < len(leaves) {
		k *= 2
	}
	left, right := NaiveRoot(leaves[:k]), NaiveRoot(leaves[k:])
	return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
}

// NaiveTile computes a tile as defined in C2SP tlog-tiles: hash i covers entries (n·256 + i)·256^l up to the next.
func NaiveTile(leaves [][32]byte, level int, n int64, width int) []byte {
	var tile []byte
	span := int64(1) << (8 * level)
	for i := range int64(width) {
		first := (n*256 + i) * span
		hash := NaiveRoot(leaves[first : first+span])
		tile = append(tile, hash[:]...)
	}
	return tile
}

// TestTreeIsThatOfRFC6962 grows trees by seals of any size, reloads them in between, and compares tiles, roots and
// proofs with the definition.
func TestTreeIsThatOfRFC6962(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seals := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(250, 260), rapid.IntRange(0, 3000)), 1,
			8).Draw(t, "seals")
		if rapid.IntRange(0, 20).Draw(t, "large") == 0 {
			seals = append(seals, 65_536) // a third level
		}
		tree, tiles := &tree{Edge: NewEdge()}, map[tlog.Tile][]byte{} // by level and number; width 0
		var leaves [][32]byte
		read := func(tile tlog.Tile) []byte {
			width := tile.W
			tile.W = 0
			return tiles[tile][:width*32]
		}
		for _, n := range seals {
			fresh := make([]tlog.Hash, n)
			for i := range fresh {
				fresh[i] = sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(len(leaves))))
				leaves = append(leaves, fresh[i])
			}
			for _, leaf := range fresh {
				testdb.NoError(t, tree.add(leaf))
			}
			for _, p := range tree.take() {
				key := tlog.Tile{H: 8, L: p.level, N: p.first / 256}
				if have := len(tiles[key]) / 32; int64(have) != p.first%256 || have+len(p.hashes)/32 > 256 {
					t.Fatalf("a piece of level %d begins at %d, %d hashes of the tile are there", p.level, p.first, have)
				}
				tiles[key] = append(tiles[key], p.hashes...)
			}
			edge := edgeTiles(tree.Size())
			stored := testdb.Must(tileMap(read).ReadTiles(edge))(t)
			tree = testdb.Must(newTree(tree.Tree(), edge, stored))(t)
		}
		root := tree.Root()
		if root != NaiveRoot(leaves) {
			t.Fatalf("%d leaves have another root", len(leaves))
		}
		for level, nodes := 0, len(leaves); nodes > 0; level, nodes = level+1, nodes/256 {
			last := int64(nodes-1) / 256
			width := nodes - int(last)*256
			if got := read(tlog.Tile{H: 8, L: level, N: last, W: width}); !bytes.Equal(got,
				NaiveTile(leaves, level, last, width)) {
				t.Fatalf("tile %d/%d of width %d differs", level, last, width)
			}
		}
		if len(leaves) > 0 {
			n := rapid.Int64Range(0, int64(len(leaves)-1)).Draw(t, "leaf")
			proof := testdb.Must(tlog.ProveRecord(int64(len(leaves)), n,
				tlog.TileHashReader(tlog.Tree{N: int64(len(leaves)), Hash: root}, tileMap(read))))(t)
			testdb.NoError(t, tlog.CheckRecord(proof, int64(len(leaves)), root, n, leaves[n]))
		}
	})
}

type tileMap func(tlog.Tile) []byte

func (tileMap) Height() int { return 8 }

func (m tileMap) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var data [][]byte
	for _, tile := range tiles {
		data = append(data, m(tile))
	}
	return data, nil
}

func (tileMap) SaveTiles([]tlog.Tile, [][]byte) {}
