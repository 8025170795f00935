package projections

import (
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// keepPlaces is how many of the latest posts places remembers at least; twice as many at most, 60 bytes or so each.
// Most replies are to recent comments.
const keepPlaces = 100_000

// place says where a post stands in its discussion: so many steps below the top, which is as far up as is known. What
// the top replies to, the anchor, is in the table, or was never imported; NULL when the top is a top-level comment.
type place struct {
	top    uuid.UUID
	anchor pgtype.UUID
	steps  int32
}

// places remembers where the latest posts stand. It relies on the order of the log: no reply comes before what it
// replies to.
type places struct{ latest, earlier map[uuid.UUID]place }

// add returns where a post stands, and remembers that.
func (p *places) add(id uuid.UUID, parent pgtype.UUID) place {
	at := place{top: id, anchor: parent}
	if parent.Valid {
		above, known := p.latest[parent.Bytes]
		if !known {
			above, known = p.earlier[parent.Bytes]
		}
		if known {
			at = place{above.top, above.anchor, above.steps + 1}
		}
	}
	if p.latest == nil || len(p.latest) >= keepPlaces {
		p.earlier, p.latest = p.latest, map[uuid.UUID]place{}
	}
	p.latest[id] = at
	return at
}
