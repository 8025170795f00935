package readapi

import (
	"encoding/binary"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/internal/httpkit"
)

// place is the sort key of a comment. A page starts at a place, inclusive. Top-level comments are sorted by (at, id),
// where at is the time of writing; replies by (at, depth, id), where at is the time of receipt.
type place struct {
	at    pgtype.Timestamptz
	depth int32
	id    uuid.UUID
}

// The places before and after all comments.
var (
	lowest  = place{at: pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}}
	highest = place{at: pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}, id: uuid.Max}
)

func placeOf(at time.Time, depth int, id uuid.UUID) place {
	return place{at: pgtype.Timestamptz{Time: at, Valid: true}, depth: int32(depth), id: id} //nolint:gosec // read from an integer of the database
}

// beside returns the place directly after p, or else directly before it, at the same depth. Times are whole
// microseconds.
func (p place) beside(after bool) place {
	step, wrapped := byte(1), byte(0)
	if !after {
		step, wrapped = 255, 255
	}
	for i := len(p.id) - 1; i >= 0; i-- {
		p.id[i] += step
		if p.id[i] != wrapped {
			return p
		}
	}
	move := time.Microsecond
	if !after {
		move = -move
	}
	p.at.Time = p.at.Time.Add(move)
	return p
}

// Kinds of cursor. A cursor of top-level comments has the number of the comment in place of the depth; see
// pageQuery.number.
const (
	onward   = 'n' // top-level comments after one, in the requested order
	backward = 'p' // top-level comments before one
	replies  = 'r' // replies after one
)

const placeLength = 8 + 4 + 16

func encodeCursor(kind byte, at time.Time, depth int, id uuid.UUID) string {
	b := make([]byte, 0, placeLength)
	b = binary.BigEndian.AppendUint64(b, uint64(at.UnixMicro()))
	b = binary.BigEndian.AppendUint32(b, uint32(depth)) //nolint:gosec // never negative
	return httpkit.EncodeCursor(string(kind), string(append(b, id[:]...)))
}

func decodeCursor(text string) (kind byte, p place, err error) {
	decoded, ok := httpkit.DecodeCursor("", text)
	if !ok || len(decoded) != 1+placeLength {
		return 0, place{}, ErrCursor
	}
	kind, b := decoded[0], []byte(decoded[1:])
	at := time.UnixMicro(int64(binary.BigEndian.Uint64(b))).UTC() //nolint:gosec // reverses the conversion of encodeCursor
	if at.Year() < earliestYear || at.Year() > latestYear {
		return 0, place{}, ErrCursor
	}
	return kind, placeOf(at, int(int32(binary.BigEndian.Uint32(b[8:]))), uuid.UUID(b[12:])), nil //nolint:gosec // likewise
}

// The years of the times in cursors. The database may refuse times before or after them.
const (
	earliestYear = -1
	latestYear   = 10_000
)
