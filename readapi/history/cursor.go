package history

import (
	"errors"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/web"
)

// Cursor is a position in the log to read from: the number of events before it, and the batch of the last of these. The
// zero Cursor is before the first event.
//
// The batch detects that the position belongs to other events: in another log, or after a failover or a restore that
// lost events. Reading from there would miss events. See eventlog.Mark.
type Cursor eventlog.Mark

// ErrCursor refuses text that is not a cursor.
var ErrCursor = errors.New("is not a cursor that this service has given")

// ErrCursorMismatch refuses a cursor whose last event is not in the log. Reading from this cursor would miss events, or
// hide the loss.
var ErrCursorMismatch = errors.New("does not match the log, which was set back by a failover or a restore, or is " +
	"another one; continue from a log index (after)")

// String returns the cursor as opaque text for clients.
func (c Cursor) String() string {
	if c == (Cursor{}) {
		return ""
	}
	return web.EncodeCursor("", strconv.FormatInt(int64(c.Position), 10)+"#"+string(c.Batch[:]))
}

// ParseCursor parses the result of String.
func ParseCursor(text string) (Cursor, error) {
	if text == "" {
		return Cursor{}, nil
	}
	decoded, _ := web.DecodeCursor("", text)
	number, batch, _ := strings.Cut(decoded, "#")
	position, err := strconv.ParseInt(number, 10, 64)
	if err != nil || position < 1 || len(batch) != len(uuid.UUID{}) {
		return Cursor{}, ErrCursor
	}
	c := Cursor{Position: events.Position(position), Batch: uuid.UUID([]byte(batch))}
	if c.String() != text {
		return Cursor{}, ErrCursor
	}
	return c, nil
}

// checkSQL tells whether the log has the last event before a cursor. If it is missing on a standby, which may lag, the
// statement fails with the SQLSTATE of an unavailable database. $1, $2: position and batch.
var checkSQL = `SELECT CASE WHEN ` + eventlog.HasMarkSQL("$1::bigint", "$2::uuid") + ` THEN true
    WHEN pg_is_in_recovery() THEN pg_current_xact_id() IS NULL ELSE false END`

// QueueCheck makes a batch fail with ErrCursorMismatch unless the log has all events before the cursor.
func (c Cursor) QueueCheck(batch *pgx.Batch) {
	batch.Queue(checkSQL, c.Position, c.Batch).QueryRow(func(row pgx.Row) error {
		var found bool
		if err := row.Scan(&found); err != nil || found {
			return err
		}
		return ErrCursorMismatch
	})
}
