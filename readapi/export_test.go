package readapi

import (
	"time"

	"github.com/google/uuid"
)

// Beside returns the sort key directly after or before another one.
func Beside(at time.Time, id uuid.UUID, behind bool) (time.Time, uuid.UUID) {
	p := placeOf(at, 0, id).beside(behind)
	return p.at.Time, p.id
}

// Cursor encodes and decodes a sort key.
func Cursor(at time.Time, depth int, id uuid.UUID) (time.Time, int, uuid.UUID, error) {
	_, p, err := decodeCursor(encodeCursor(replies, at, depth, id))
	return p.at.Time, int(p.depth), p.id, err
}
