package ledger_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/ledger"
)

// naiveRoot computes the Merkle tree hash as defined in RFC 6962, section 2.1.
func naiveRoot(leaves [][32]byte) [32]byte {
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
	left, right := naiveRoot(leaves[:k]), naiveRoot(leaves[k:])
	return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
}

// naiveTile computes a tile as defined in C2SP tlog-tiles: hash i covers entries (n·256 + i)·256^l up to the next.
func naiveTile(leaves [][32]byte, level int, n int64, width int) []byte {
	var tile []byte
	span := int64(1) << (8 * level)
	for i := range int64(width) {
		first := (n*256 + i) * span
		hash := naiveRoot(leaves[first : first+span])
		tile = append(tile, hash[:]...)
	}
	return tile
}

// storedEvent is an event in the database.
type storedEvent struct {
	ID, Source, Type, StreamType string
	StreamID                     [16]byte
	Version                      int32
	RecordedAt                   time.Time
	Data, Metadata               string
	Personal                     *string
	Salt                         *[16]byte
	LogIndex                     int64
}

// entry encodes an event as described in docs/auditors.md.
func (e *storedEvent) entry() []byte {
	var b bytes.Buffer
	b.WriteString("novelgate/event/v1\n")
	for _, text := range []string{e.ID, e.Source, e.Type, e.StreamType} {
		b.Write([]byte{byte(len(text) >> 8), byte(len(text))})
		b.WriteString(text)
	}
	b.Write(e.StreamID[:])
	_ = binary.Write(&b, binary.BigEndian, e.Version)
	_ = binary.Write(&b, binary.BigEndian, e.RecordedAt.UnixMicro())
	digest := func(text string) {
		sum := sha256.Sum256([]byte(text))
		b.Write(sum[:])
	}
	digest(e.Data)
	switch {
	case e.Personal == nil:
		b.WriteByte(0)
	case e.Salt == nil:
		b.WriteByte(2)
		digest(*e.Personal)
	default:
		b.WriteByte(1)
		digest(string(e.Salt[:]) + *e.Personal)
	}
	digest(e.Metadata)
	return b.Bytes()
}

func storedEvents(t testing.TB, pool *pgxpool.Pool) []storedEvent {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT e.event_id, e.event_source, e.event_type, e.stream_type, e.stream_id, e.stream_version, e.recorded_at,
			e.data::text, e.metadata::text, e.personal::text, e.salt, e.log_index
		FROM event_log e ORDER BY e.log_index`)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[storedEvent])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// wantSound compares the stored ledger with the log, which must be sealed, without the code of the ledger. It returns
// the leaves.
func wantSound(t testing.TB, pool *pgxpool.Pool) [][32]byte {
	t.Helper()
	list := storedEvents(t, pool)
	store := ledger.NewStore(pool)
	leaves := make([][32]byte, len(list))
	var bundle []byte
	flush := func(end int) {
		n, width := int64(end-1)/256, (end-1)%256+1
		got, err := store.Tile(t.Context(), tlog.Tile{H: 8, L: -1, N: n, W: width})
		if err != nil || !bytes.Equal(got, bundle) {
			t.Fatalf("bundle %d of %d entries differs: %v", n, width, err)
		}
		bundle = nil
	}
	for i := range list {
		if list[i].LogIndex != int64(i) {
			t.Fatalf("event %d has log index %v", i, list[i].LogIndex)
		}
		entry := list[i].entry()
		leaves[i] = sha256.Sum256(append([]byte{0}, entry...))
		bundle = append(append(bundle, byte(len(entry)>>8), byte(len(entry))), entry...)
		if (i+1)%256 == 0 || i+1 == len(list) {
			flush(i + 1)
		}
	}
	for level, nodes := 0, int64(len(list)); nodes > 0; level, nodes = level+1, nodes/256 {
		for n := range (nodes + 255) / 256 {
			width := int(min(256, nodes-n*256))
			got, err := store.Tile(t.Context(), tlog.Tile{H: 8, L: level, N: n, W: width})
			if err != nil || !bytes.Equal(got, naiveTile(leaves, level, n, width)) {
				t.Fatalf("tile %d/%d of width %d differs: %v", level, n, width, err)
			}
		}
	}
	var size int64
	var root []byte
	if err := pool.QueryRow(t.Context(), `SELECT tree_size, root_hash FROM ledger_state`).Scan(&size, &root); err != nil {
		t.Fatal(err)
	}
	if want := naiveRoot(leaves); size != int64(len(list)) || !bytes.Equal(root, want[:]) {
		t.Fatalf("the tree has %d entries of %d, its root is %x, want %x", size, len(list), root, want)
	}
	// The ledger has nothing beyond the log.
	var stray int64
	err := pool.QueryRow(t.Context(), `SELECT sum(length(hashes)) / 32 - $1 FROM ledger_tiles WHERE level = 0`, size).Scan(&stray)
	if size > 0 && (err != nil || stray != 0) {
		t.Fatalf("%d leaves too many or too few, %v", stray, err)
	}
	return leaves
}

// leafOf returns the leaf hash of an event.
func leafOf(e storedEvent) [32]byte { return sha256.Sum256(append([]byte{0}, e.entry()...)) }
