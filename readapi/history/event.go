package history

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events/cloudevent"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
)

// Event is an event with its stored bytes.
type Event struct {
	eventlog.Row
	LogIndex *int64 // nil until the event is sealed

	count int64 // see Cursor
}

// newEvent returns an event with a copy of row. count is the number of events up to this one; 0 is unknown, which only
// happens for an unsealed event. sealed is the number of sealed events.
func newEvent(row *eventlog.Row, count, sealed int64) Event {
	e := Event{Row: row.Clone(), count: count}
	if 0 < count && count <= sealed {
		e.LogIndex = new(count - 1)
	}
	return e
}

// Cursor returns the cursor after the event.
func (e *Event) Cursor() Cursor {
	return Cursor{Position: e.Position, digest: digestOf(&e.Row), count: e.count}
}

// eventColumns are the columns of an event e that readEvent reads.
var eventColumns = eventlog.Columns + ", " + countOrZeroSQL + ", " + sealedSQL

var eventSQL = "SELECT " + eventColumns + "\nFROM events AS e WHERE e.transaction_id = $1 AND e.position = $2"

// At returns the event with a log index; ErrNotFound when there is none. Like Version and Page it waits for the
// synchronous standby.
func At(ctx context.Context, db database.DB, index int64) (Event, error) {
	position, err := locate(ctx, db, index)
	if errors.Is(err, ErrBeyond) {
		return Event{}, ErrNotFound
	}
	if err != nil {
		return Event{}, err
	}
	return readEvent(ctx, db, eventSQL, position.TransactionID, position.Ordinal)
}

const streamTypeSQL = `SELECT stream_type FROM events WHERE stream_id = $1 AND stream_version = 1`

// StreamType returns the type of a stream, also before its first event has settled; ErrNotFound when there is no such
// stream.
func StreamType(ctx context.Context, db database.DB, stream uuid.UUID) (string, error) {
	var kind string
	err := db.QueryRow(ctx, streamTypeSQL, stream).Scan(&kind)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("find stream: %w", err)
	}
	return kind, nil
}

var versionSQL = "SELECT " + eventColumns + `
FROM events AS e WHERE e.stream_id = $1 AND e.stream_version = $2 AND e.transaction_id < pg_snapshot_xmin(pg_current_snapshot())`

// Version returns one version of a stream; ErrNotFound when there is none, or it has not settled yet.
func Version(ctx context.Context, db database.DB, stream uuid.UUID, version int) (Event, error) {
	return readEvent(ctx, db, versionSQL, stream, version)
}

func readEvent(ctx context.Context, db database.DB, sql string, args ...any) (e Event, err error) {
	var batch pgx.Batch
	batch.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
		e, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (Event, error) {
			var r eventlog.Row
			var count, sealed int64
			err := r.Scan(row, &count, &sealed)
			return newEvent(&r, count, sealed), err
		})
		return err
	})
	eventlog.QueueReplicated(&batch)
	err = db.SendBatch(ctx, &batch).Close()
	if errors.Is(err, pgx.ErrNoRows) {
		return Event{}, ErrNotFound
	}
	if err != nil {
		return Event{}, fmt.Errorf("read event: %w", err)
	}
	return e, nil
}

// AppendCloudEvent appends an event to a buffer as a CloudEvent with its log index, its cursor, and its personal data
// unless that was erased; see cloudevent.Append.
func AppendCloudEvent(buffer []byte, e *Event) ([]byte, error) {
	return cloudevent.Append(buffer, &e.Row, cloudevent.Attributes{
		LogIndex: e.LogIndex, Cursor: e.Cursor().String(), Personal: e.Personal,
	})
}
