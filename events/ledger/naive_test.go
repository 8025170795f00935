package ledger_test

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/eventlog"
	"novelgate/events/ledger"
	"novelgate/internal/testdb"
)

// wantSound compares the stored ledger, which must cover the log, with the definition of its files. Golden files and
// the independent verifier of package audit say what an entry is. It returns the leaves.
func wantSound(t testing.TB, pool *pgxpool.Pool) [][32]byte {
	t.Helper()
	var leaves [][32]byte
	var bundles [][]byte
	for row, err := range eventlog.Rows(t.Context(), pool, `SELECT `+eventlog.Columns+` FROM events ORDER BY log_index`) {
		if err != nil || row.LogIndex != int64(len(leaves)) {
			t.Fatalf("event %d has log index %d, %v", len(leaves), row.LogIndex, err)
		}
		entry := testdb.Must(ledger.AppendEntry(nil, row))(t)
		if len(leaves)%256 == 0 {
			bundles = append(bundles, nil)
		}
		leaves = append(leaves, sha256.Sum256(append([]byte{0}, entry...)))
		last := &bundles[len(bundles)-1]
		*last = append(append(*last, byte(len(entry)>>8), byte(len(entry))), entry...)
	}
	store := ledger.NewStore(pool)
	wantTile := func(level int, n, nodes int64, want func(width int) []byte) {
		t.Helper()
		width := int(min(256, nodes-n*256))
		got, err := store.Tile(t.Context(), tlog.Tile{H: 8, L: level, N: n, W: width})
		if err != nil || !bytes.Equal(got, want(width)) {
			t.Fatalf("tile %d/%d of width %d differs: %v", level, n, width, err)
		}
	}
	for n, bundle := range bundles {
		wantTile(-1, int64(n), int64(len(leaves)), func(int) []byte { return bundle })
	}
	for level, nodes := 0, int64(len(leaves)); nodes > 0; level, nodes = level+1, nodes/256 {
		for n := range (nodes + 255) / 256 {
			wantTile(level, n, nodes, func(width int) []byte { return ledger.NaiveTile(leaves, level, n, width) })
		}
	}
	var size, stored int64
	var root []byte
	if err := pool.QueryRow(t.Context(), `SELECT tree_size, root_hash,
		coalesce((SELECT sum(length(hashes)) / 32 FROM ledger_tiles WHERE level = 0), 0) FROM ledger_state`).
		Scan(&size, &root, &stored); err != nil {
		t.Fatal(err)
	}
	want := ledger.NaiveRoot(leaves)
	if n := int64(len(leaves)); size != n || stored != n || !bytes.Equal(root, want[:]) {
		t.Fatalf("the tree has %d entries and %d leaves of %d events, its root is %x, want %x", size, stored, n, root, want)
	}
	return leaves
}
