package history

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/internal/database"
	"novelgate/internal/httpkit"
)

// Cursor is a place in the log; reading goes on after it. The zero Cursor is before the first event.
//
// A cursor is the position of an event, a digest of that event, and how many events the log had up to there.
// Transaction ids come again after a failover or a restore that has lost events, and another log has them too, so the
// position may be that of another event: going on there would pass over those in front of it. A log that has the very
// event has given every later event a later position. It may have lost events in front of it: positions are in the
// order in which transactions began, and one that committed later than the event may not have reached the standby that
// the log failed over to. Then the count is another one.
type Cursor struct {
	events.Position

	digest digest
	count  int64 // 0: not known
	// in the form without a digest: how many events had moved to another cluster; 0 for a place among them, which stays
	moved int32
}

// digest tells an event from every other one, whatever is erased of it. It is zero in cursors of before there were
// digests.
type digest [8]byte

// ScanBytes reads a digest from a row.
func (d *digest) ScanBytes(from []byte) error {
	*d = digest{}
	copy(d[:], from)
	return nil
}

// digestSQL is the digest of an event e. An append has a batch id of its own, and a command that is repeated another
// recorded_at.
const digestSQL = `substring(sha256(convert_to(concat_ws(E'\n', e.stream_id, e.stream_version, e.event_id, e.event_type,
           extract(epoch FROM e.recorded_at), e.batch_id), 'UTF8')) FOR 8)`

// ErrCursor refuses a text that is no cursor.
var ErrCursor = errors.New("is not a cursor that this service has given")

// ErrElsewhere refuses a cursor that does not match the log: the log does not have its event there, or has lost events
// before it. Reading from this cursor would miss events, or hide the loss.
var ErrElsewhere = errors.New("does not match the log, which was set back by a failover or a restore, has moved " +
	"to another cluster, or is another one; continue from a log index (after)")

// String returns the cursor as clients see it: text that they do not look into.
func (c Cursor) String() string {
	if c.Position == (events.Position{}) {
		return ""
	}
	text := c.Position.String()
	switch {
	case c.digest != digest{}:
		if c.count > 0 {
			text += "/" + strconv.FormatInt(c.count, 10)
		}
		text += "#" + string(c.digest[:])
	case c.moved > 0:
		text += "/" + strconv.FormatInt(int64(c.moved), 10)
	}
	return httpkit.EncodeCursor("", text)
}

// ParseCursor reads what String returned, and what it returned before there were counts, or digests.
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
		if len(numbers) == 3 {
			if c.count, err = strconv.ParseInt(numbers[2], 10, 64); err != nil {
				return Cursor{}, ErrCursor
			}
		}
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

// CursorSQL is the columns that Fields scans, of an event e.
var CursorSQL = `e.transaction_id, e.position, ` + digestSQL + `, coalesce(` +
	countSQL("e.transaction_id", "e.position") + `, 0)`

// Fields are the destinations of a row with CursorSQL, which makes this the cursor after the event.
func (c *Cursor) Fields() []any { return []any{&c.TransactionID, &c.Ordinal, &c.digest, &c.count} }

// Event tells the event that the cursor is behind from every other one, in any log: 16 hexadecimal digits.
func (c Cursor) Event() string { return hex.EncodeToString(c.digest[:]) }

// QueueCheck adds to a batch that it fails with ErrElsewhere unless the log has given the cursor, and has kept all that
// was in front of it.
func (c Cursor) QueueCheck(batch *pgx.Batch) {
	batch.Queue(checkCountSQL, c.TransactionID, c.Ordinal).QueryRow(func(row pgx.Row) error {
		_, err := c.check(Horizon{}, row)
		return err
	})
}

// Cursor is the place after the event.
func (e *Event) Cursor() Cursor {
	return Cursor{Position: e.Position, digest: e.digest, count: e.count}
}

// Horizon is the border between what has settled and what has not, at one moment.
type Horizon struct {
	xmin    uint64 // every transaction below it has ended
	settled bool   // and no other one had begun
	end     Cursor // after the last event below it
}

// Cursor is the place after everything that has settled.
func (h Horizon) Cursor() Cursor { return h.end }

// checkSQL looks at what stands at a place, and at the horizon. $1, $2: transaction and ordinal.
const checkSQL = `SELECT pg_snapshot_xmin(pg_current_snapshot()), ` + movedSQL + `,
       (SELECT ` + digestSQL + ` FROM events AS e WHERE e.transaction_id = $1 AND e.position = $2), `

var checkCountSQL = checkSQL + countSQL("$1::xid8", "$2::integer")

// movedSQL counts the events that have moved to another cluster: their positions are dense.
const movedSQL = `coalesce((SELECT m.position + 1 FROM events AS m WHERE m.transaction_id = '2' ORDER BY m.position DESC LIMIT 1), 0)`

// uncounted is how many events may be there that the ledger has not sealed yet for counts to be known.
const uncounted = 5000

// countSQL is an expression for how many events the log has up to an event: its log index and one, also while it is not
// sealed. It is NULL when too many are not.
func countSQL(transaction, position string) string {
	return fmt.Sprintf(`(SELECT CASE WHEN s.transaction_id = %[1]s THEN s.first_log_index + %[2]s + 1
    ELSE coalesce(s.first_log_index + s.event_count, 0) + (SELECT nullif(count(*), %[3]d) FROM (
        SELECT FROM events AS u WHERE (u.transaction_id, u.position) > (coalesce(s.transaction_id, '0'), 2147483647)
            AND (u.transaction_id, u.position) <= (%[1]s, %[2]s) LIMIT %[3]d) AS u) END
FROM (SELECT) AS one LEFT JOIN LATERAL (SELECT * FROM ledger_seals AS s WHERE s.transaction_id <= %[1]s
    ORDER BY s.transaction_id DESC LIMIT 1) AS s ON true)`, transaction, position, uncounted+1)
}

// check reads the row of checkCountSQL. It fails with ErrElsewhere unless the log that answers, as it is now, has given
// cursor and horizon, and has kept all that was in front of the cursor. It returns how many events the log has up to
// the cursor, nil when that is not known.
func (c Cursor) check(horizon Horizon, row pgx.Row) (*int64, error) {
	var xmin uint64
	var moved int32
	var found []byte
	var count *int64
	if err := row.Scan(&xmin, &moved, &found, &count); err != nil {
		return nil, fmt.Errorf("check cursor: %w", err)
	}
	if found == nil && c != (Cursor{}) {
		count = nil // of nothing
	}
	var sound bool
	switch {
	case xmin < horizon.xmin || c.TransactionID >= xmin:
	case c == Cursor{}:
		sound = true
	case c.digest != digest{}:
		sound = bytes.Equal(found, c.digest[:]) && (c.count == 0 || count == nil || *count == c.count)
	case c.TransactionID > events.Frozen && c.moved != moved:
	case c.Ordinal == math.MaxInt32: // after all that had settled, whatever that was
		sound = true
	default:
		sound = found != nil
	}
	if !sound {
		return nil, ErrElsewhere
	}
	return count, nil
}

// Point is a moment of the history: after the event with a log index, or after what was recorded at a time.
type Point struct {
	position *events.Position
	time     time.Time
}

// ParsePoint reads a log index or a time (RFC 3339). It fails with ErrBeyond for a log index that no event has yet.
func ParsePoint(ctx context.Context, db database.DB, text string) (Point, error) {
	if index, err := strconv.ParseInt(text, 10, 64); err == nil {
		position, err := locate(ctx, db, index)
		if err != nil {
			return Point{}, fmt.Errorf("%d: %w", index, err)
		}
		return Point{position: &position}, nil
	}
	t, err := ParseTime(text)
	if err != nil {
		return Point{}, fmt.Errorf("%q is neither a log index nor a time: it %w", text, err)
	}
	return Point{time: t}, nil
}

// After reports whether a point is behind another one of its kind. What a time is to a log index only events can tell:
// see Until.
func (p Point) After(other Point) bool {
	if p.position != nil && other.position != nil {
		return p.position.Compare(*other.position) > 0
	}
	return p.position == nil && other.position == nil && p.time.After(other.time)
}

// Until returns those of events in log order that are not after the point. What is kept of a stream is always its
// beginning, also when the clock of the database was set back.
func (p Point) Until(list []events.Recorded) []events.Recorded {
	var kept []events.Recorded
	ended := map[uuid.UUID]bool{}
	for i := range list {
		r := &list[i]
		if p.position != nil && r.Position.Compare(*p.position) > 0 || p.position == nil && r.RecordedAt.After(p.time) {
			ended[r.StreamID] = true
		}
		if !ended[r.StreamID] {
			kept = append(kept, *r)
		}
	}
	return kept
}
