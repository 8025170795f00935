package history

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/internal/httpkit"
)

// Cursor is a place in the log; reading goes on behind it. The zero Cursor is before the first event.
//
// A cursor is the position of an event and a digest of that event. Transaction ids come again after a failover or a
// restore that has lost events, and another log has them too, so the position may be that of another event: going on
// there would pass over those in front of it. A log that has the very event has kept all that settled in front of it,
// and has given every later event a later position.
type Cursor struct {
	events.Position

	digest digest
	// in the form without a digest: how many events had moved to another cluster; 0 for a place among them, which stays
	moved int32
}

// digest tells an event from every other one, whatever is erased of it. It is zero in cursors of before there were
// digests.
type digest [8]byte

// digestSQL is the digest of an event e. An append has a batch id in its metadata, and a command that is repeated
// another recorded_at.
const digestSQL = `substring(sha256(convert_to(concat_ws(E'\n', e.stream_id, e.stream_version, e.event_id, e.event_source, e.event_type,
           extract(epoch FROM e.recorded_at), e.metadata), 'UTF8')) FOR 8)`

// ErrCursor refuses a text that is no cursor.
var ErrCursor = errors.New("is not a cursor that this service has given")

// ErrElsewhere refuses a cursor behind an event that the log does not have, or no longer has: reading on from there
// would pass over events.
var ErrElsewhere = errors.New("is behind an event that this log does not have there: the log was set back by a " +
	"failover or a restore, " +
	"has moved to another cluster, or is another one; go on from a log index (after)")

// String returns the cursor as clients see it: text that they do not look into.
func (c Cursor) String() string {
	if c.Position == (events.Position{}) {
		return ""
	}
	text := c.Position.String()
	switch {
	case c.digest != digest{}:
		text += "#" + string(c.digest[:])
	case c.moved > 0:
		text += "/" + strconv.FormatInt(int64(c.moved), 10)
	}
	return httpkit.EncodeCursor("", text)
}

// ParseCursor reads what String returned, and what it returned before there were digests.
func ParseCursor(text string) (Cursor, error) {
	if text == "" {
		return Cursor{}, nil
	}
	decoded, ok := httpkit.DecodeCursor("", text)
	if !ok {
		return Cursor{}, ErrCursor
	}
	place, sum, hasDigest := strings.Cut(decoded, "#")
	numbers := strings.Split(place, "/")
	if len(numbers) < 2 || len(numbers) > 3 {
		return Cursor{}, ErrCursor
	}
	var c Cursor
	var err error
	if c.TransactionID, err = strconv.ParseUint(numbers[0], 10, 64); err != nil {
		return Cursor{}, ErrCursor
	}
	ordinal, err := strconv.ParseInt(numbers[1], 10, 32)
	if err != nil {
		return Cursor{}, ErrCursor
	}
	c.Ordinal = int32(ordinal)
	switch {
	case hasDigest && len(sum) == len(c.digest):
		copy(c.digest[:], sum)
	case len(numbers) == 3 && c.TransactionID > events.Frozen:
		moved, err := strconv.ParseInt(numbers[2], 10, 32)
		if err != nil {
			return Cursor{}, ErrCursor
		}
		c.moved = int32(moved)
	}
	if c.String() != text {
		return Cursor{}, ErrCursor
	}
	return c, nil
}

// Cursor is the place behind the event.
func (e *Event) Cursor() Cursor { return Cursor{Position: e.Position, digest: e.digest} }

// Horizon is the border between what has settled and what has not, at one moment.
type Horizon struct {
	xmin    uint64 // every transaction below it has ended
	settled bool   // and no other one had begun
	end     Cursor // behind the last event below it
}

// Cursor is the place behind everything that has settled.
func (h Horizon) Cursor() Cursor { return h.end }

// checkSQL looks at what stands at a place, and at the horizon. $1, $2: transaction and ordinal.
const checkSQL = `SELECT pg_snapshot_xmin(pg_current_snapshot()), ` + movedSQL + `,
       (SELECT ` + digestSQL + ` FROM events AS e WHERE e.transaction_id = $1 AND e.position = $2)`

// movedSQL counts the events that have moved to another cluster: their positions are dense.
const movedSQL = `coalesce((SELECT m.position + 1 FROM events AS m WHERE m.transaction_id = '2' ORDER BY m.position DESC LIMIT 1), 0)`

// check reads the row of checkSQL. It fails with ErrElsewhere unless the log that answers, as it is now, has given
// cursor and horizon.
func (c Cursor) check(horizon Horizon, row pgx.Row) error {
	var xmin uint64
	var moved int32
	var found []byte
	if err := row.Scan(&xmin, &moved, &found); err != nil {
		return fmt.Errorf("check cursor: %w", err)
	}
	var sound bool
	switch {
	case xmin < horizon.xmin || c.TransactionID >= xmin:
	case c == Cursor{}:
		sound = true
	case c.digest != digest{}:
		sound = bytes.Equal(found, c.digest[:])
	case c.TransactionID > events.Frozen && c.moved != moved:
	case c.Ordinal == math.MaxInt32: // behind all that had settled, whatever that was
		sound = true
	default:
		sound = found != nil
	}
	if !sound {
		return ErrElsewhere
	}
	return nil
}
