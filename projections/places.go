package projections

import "github.com/google/uuid"

// keepPlaces is how many of the latest posts places remembers at least; twice as many at most, 50 bytes or so each.
// Most replies are to recent comments.
const keepPlaces = 250_000

// place says where a post stands in its discussion: below which top-level comment, and how deep. The root of a
// top-level comment is itself, at depth 0.
type place struct {
	root  uuid.UUID
	depth int32
}

// places remembers where the latest posts stand.
type places struct{ latest, earlier map[uuid.UUID]place }

// add returns where a post stands, and remembers that. It is false when the place of what the post replies to is not
// known.
func (p *places) add(id uuid.UUID, parent *uuid.UUID) (place, bool) {
	at := place{root: id}
	if parent != nil {
		above, ok := p.latest[*parent]
		if !ok {
			if above, ok = p.earlier[*parent]; !ok {
				return place{}, false
			}
		}
		at = place{root: above.root, depth: above.depth + 1}
	}
	if p.latest == nil || len(p.latest) >= keepPlaces {
		p.earlier, p.latest = p.latest, map[uuid.UUID]place{}
	}
	p.latest[id] = at
	return at, true
}
