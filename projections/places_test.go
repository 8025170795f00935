package projections

import (
	"encoding/binary"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

func numbered(n int) (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[:], uint64(n))
	return id
}

// TestPlacesKeepTheLatest: a reply has a place as long as its parent is among the latest posts; memory is limited.
func TestPlacesKeepTheLatest(t *testing.T) {
	t.Parallel()
	var p places
	for i := range 3 * keepPlaces {
		var parent pgtype.UUID
		if i%10 > 0 {
			parent = pgUUID(numbered(i - 1))
		}
		if at, want := p.add(numbered(i), parent), (place{top: numbered(i - i%10), steps: int32(i % 10)}); at != want {
			t.Fatalf("post %d is at %+v, want %+v", i, at, want)
		}
		if kept := len(p.latest) + len(p.earlier); kept > 2*keepPlaces {
			t.Fatalf("%d are kept", kept)
		}
	}
	for parent, known := range map[int]bool{2*keepPlaces + 1: true, 1: false, 4 * keepPlaces: false} {
		if at := p.add(uuid.New(), pgUUID(numbered(parent))); at.anchor.Valid == known {
			t.Errorf("a reply to post %d is at %+v", parent, at)
		}
	}
}
