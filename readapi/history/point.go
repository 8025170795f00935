package history

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/database"
	"novelgate/internal/httpkit"
)

// Point is a moment of the history: after the event with a log index, or after the events recorded up to a time.
type Point struct {
	index *int64 // nil: time
	time  time.Time
}

// ParsePoint reads a log index or a time (RFC 3339). It fails with ErrBeyond for a log index that no event has yet.
func ParsePoint(ctx context.Context, db database.DB, text string) (Point, error) {
	if index, err := strconv.ParseInt(text, 10, 64); err == nil {
		if err := checkIndex(ctx, db, index); err != nil {
			return Point{}, fmt.Errorf("%d: %w", index, err)
		}
		return Point{index: &index}, nil
	}
	t, err := httpkit.ParseTime(text)
	if err != nil {
		return Point{}, fmt.Errorf("%q is neither a log index nor a time: it %w", text, err)
	}
	return Point{time: t}, nil
}

// After reports whether a point is after another one of the same kind; false for a time and a log index. To compare
// these, use Until.
func (p Point) After(other Point) bool {
	if p.index != nil && other.index != nil {
		return *p.index > *other.index
	}
	return p.index == nil && other.index == nil && p.time.After(other.time)
}

// Until returns the events up to the point from a list in log order. It returns a prefix of each stream, even if the
// clock of the database was set back.
func (p Point) Until(list []events.Recorded) []events.Recorded {
	var kept []events.Recorded
	ended := map[uuid.UUID]bool{}
	for i := range list {
		r := &list[i]
		if p.index != nil && r.LogIndex > *p.index || p.index == nil && r.RecordedAt.After(p.time) {
			ended[r.StreamID] = true
		}
		if !ended[r.StreamID] {
			kept = append(kept, *r)
		}
	}
	return kept
}
