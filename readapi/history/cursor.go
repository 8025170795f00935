package history

import (
	"encoding/base64"
	"errors"
	"math"
	"strconv"
	"strings"

	"novelgate/events"
)

// Cursor is a place in the log; reading goes on behind it. The zero Cursor is before the first event.
type Cursor struct {
	events.Position

	// moved is how many events had moved to another cluster when the cursor was given: a place behind them means nothing once
	// the log has moved again. It is 0 for a place among them, which stays.
	moved int32
}

func newCursor(p events.Position, moved int32) Cursor {
	if p.TransactionID <= events.Frozen {
		moved = 0
	}
	return Cursor{Position: p, moved: moved}
}

// ErrCursor refuses a text that is no cursor.
var ErrCursor = errors.New("is not a cursor that this service has given")

// ErrElsewhere refuses a cursor of another log: reading on from there would pass over events.
var ErrElsewhere = errors.New("is from another database, or from before the history moved to another cluster: go on from a log index")

// String returns the cursor as clients see it: text that they do not look into.
func (c Cursor) String() string {
	if c.Position == (events.Position{}) {
		return ""
	}
	text := c.Position.String()
	if c.moved > 0 {
		text += "/" + strconv.FormatInt(int64(c.moved), 10)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

// ParseCursor reads what String returned.
func ParseCursor(text string) (Cursor, error) {
	if text == "" {
		return Cursor{}, nil
	}
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return Cursor{}, ErrCursor
	}
	transaction, ordinal, ok := strings.Cut(string(decoded), "/")
	if !ok {
		return Cursor{}, ErrCursor
	}
	id, err := strconv.ParseUint(transaction, 10, 64)
	if err != nil {
		return Cursor{}, ErrCursor
	}
	ordinal, moved, hasMoved := strings.Cut(ordinal, "/")
	n, err := strconv.ParseInt(ordinal, 10, 32)
	if err != nil {
		return Cursor{}, ErrCursor
	}
	var m int64
	if hasMoved {
		if m, err = strconv.ParseInt(moved, 10, 32); err != nil {
			return Cursor{}, ErrCursor
		}
	}
	c := newCursor(events.Position{TransactionID: id, Ordinal: int32(n)}, int32(m))
	if c.String() != text {
		return Cursor{}, ErrCursor
	}
	return c, nil
}

// Cursor is the place behind the event.
func (e *Event) Cursor() Cursor { return newCursor(e.Position, e.moved) }

// Horizon is the border between what has settled and what has not, at one moment.
type Horizon struct {
	xmin    uint64 // every transaction below it has ended
	settled bool   // and no other one had begun
	moved   int32  // events that have moved to another cluster
}

// Cursor is the place behind everything that has settled.
func (h Horizon) Cursor() Cursor {
	return newCursor(events.Position{TransactionID: h.xmin - 1, Ordinal: math.MaxInt32}, h.moved)
}

// knows reports whether a cursor was given on this log, as it is now.
func (h Horizon) knows(c Cursor) bool {
	return c.TransactionID <= events.Frozen || c.TransactionID < h.xmin && c.moved == h.moved
}
