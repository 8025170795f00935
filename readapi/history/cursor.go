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
type Cursor struct{ events.Position }

// ErrCursor refuses a text that is no cursor.
var ErrCursor = errors.New("is not a cursor that this service has given")

// ErrAhead refuses a cursor behind which nothing can be yet: going on from there would pass over whatever comes until then.
var ErrAhead = errors.New("is ahead of the log: it is from another database, or from before the history moved to another cluster. Go on from a log index")

// String returns the cursor as clients see it: text that they do not look into.
func (c Cursor) String() string {
	if c.Position == (events.Position{}) {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(c.Position.String()))
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
	n, err := strconv.ParseInt(ordinal, 10, 32)
	if err != nil {
		return Cursor{}, ErrCursor
	}
	c := Cursor{events.Position{TransactionID: id, Ordinal: int32(n)}}
	if c.String() != text {
		return Cursor{}, ErrCursor
	}
	return c, nil
}

// cursorOf is the place behind an event.
func cursorOf(e *Event) Cursor { return Cursor{e.Position} }

// Horizon is the border between what has settled and what has not, at one moment.
type Horizon struct {
	xmin    uint64 // every transaction below it has ended
	settled bool   // and no other one had begun
}

// Cursor is the place behind everything that has settled.
func (h Horizon) Cursor() Cursor {
	return Cursor{events.Position{TransactionID: h.xmin - 1, Ordinal: math.MaxInt32}}
}
