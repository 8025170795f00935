package projections

import (
	"github.com/jackc/pgx/v5/pgtype"
)

// ancestry says where the posts of a batch stand in their discussions, a slice per column. Each reply is followed up as
// far as the batch goes: to its top, so many steps away. What the top replies to, the anchor, is in the table already,
// or was never imported; NULL when the top is top-level.
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
