package projections

import (
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

// ancestry says where the posts of a batch stand in their discussions, a slice per column. Each reply is followed up as far as
// the batch goes: to its top, so many steps away. What the top replies to, the anchor, is in the table already, or was never
// imported; NULL when the top is top-level.
type ancestry struct {
	tops, anchors pgtype.FlatArray[pgtype.UUID]
	steps         []int32
}

// ancestry relies on the order of the log: no reply comes before what it replies to.
func (r *postRows) ancestry() ancestry {
	n := len(r.posts)
	a := ancestry{make(pgtype.FlatArray[pgtype.UUID], n), make(pgtype.FlatArray[pgtype.UUID], n), make([]int32, n)}
	earlier := make(map[[16]byte]int, n)
	for i, id := range r.posts {
		a.tops[i], a.anchors[i] = id, r.parents[i]
		if parent, ok := earlier[r.parents[i].Bytes]; ok && r.parents[i].Valid {
			a.tops[i], a.anchors[i], a.steps[i] = a.tops[parent], a.anchors[parent], a.steps[parent]+1
		}
		earlier[id.Bytes] = i
	}
	return a
}

// places says where posts stand in their discussions as far as that is known, a slice per column: below which top-level comment,
// NULL for one itself, and how deep.
type places struct {
	roots  pgtype.FlatArray[pgtype.UUID]
	depths []int32
	byID   map[uuid.UUID]int
}

func newPlaces(capacity int) *places {
	return &places{make(pgtype.FlatArray[pgtype.UUID], 0, capacity), make([]int32, 0, capacity), make(map[uuid.UUID]int, capacity)}
}

// add adds a post. It is false, and nothing is added, when the place of what the post replies to is not known.
func (p *places) add(id uuid.UUID, parent *uuid.UUID) bool {
	var root pgtype.UUID
	var depth int32
	if parent != nil {
		above, ok := p.byID[*parent]
		if !ok {
			return false
		}
		if root, depth = p.roots[above], p.depths[above]+1; !root.Valid {
			root = present(*parent)
		}
	}
	p.byID[id] = len(p.roots)
	p.roots, p.depths = append(p.roots, root), append(p.depths, depth)
	return true
}
