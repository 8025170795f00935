package projections

import (
	"encoding/binary"
	"testing"

	"github.com/google/uuid"
)

func numbered(n int) (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[:], uint64(n))
	return id
}

// A reply is placed as long as what it replies to is among the latest; what is kept is bounded.
func TestPlacesKeepTheLatest(t *testing.T) {
	t.Parallel()
	var p places
	for i := range 3 * keepPlaces {
		var parent *uuid.UUID
		if i%10 > 0 {
			above := numbered(i - 1)
			parent = &above
		}
		at, ok := p.add(numbered(i), parent)
		if want := (place{root: numbered(i - i%10), depth: int32(i % 10)}); !ok || at != want {
			t.Fatalf("post %d is at %+v, %v, want %+v", i, at, ok, want)
		}
		if kept := len(p.latest) + len(p.earlier); kept > 2*keepPlaces {
			t.Fatalf("%d are kept", kept)
		}
	}
	for parent, want := range map[int]bool{2*keepPlaces + 1: true, 1: false, 4 * keepPlaces: false} {
		above := numbered(parent)
		if _, ok := p.add(uuid.New(), &above); ok != want {
			t.Errorf("a reply to post %d: %v", parent, ok)
		}
	}
}
