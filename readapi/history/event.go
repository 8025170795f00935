package history

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/events/cloudevent"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
)

// Event is an event with its stored bytes.
type Event struct{ eventlog.Row }

// Cursor returns the cursor after the event.
func (e *Event) Cursor() Cursor {
	return Cursor{Position: events.Position(e.LogIndex + 1), Batch: e.Metadata.Batch}
}

const atSQL = "SELECT " + eventlog.Columns + "\nFROM events WHERE log_index = $1"

// At returns the event with a log index; ErrNotFound when there is none. Like Version and Page it waits for the
// synchronous standby.
func At(ctx context.Context, db database.DB, index int64) (Event, error) {
	return readEvent(ctx, db, atSQL, index)
}

const streamTypeSQL = `SELECT stream_type FROM events WHERE stream_id = $1 AND stream_version = 1`

// StreamType returns the type of a stream; ErrNotFound when there is no such stream.
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

const versionSQL = "SELECT " + eventlog.Columns + "\nFROM events WHERE stream_id = $1 AND stream_version = $2"

// Version returns one version of a stream; ErrNotFound when there is none.
func Version(ctx context.Context, db database.DB, stream uuid.UUID, version int) (Event, error) {
	return readEvent(ctx, db, versionSQL, stream, version)
}

func readEvent(ctx context.Context, db database.DB, sql string, args ...any) (Event, error) {
	var found []Event
	var batch pgx.Batch
	batch.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
		found, _, err = collect(rows)
		return err
	})
	eventlog.QueueReplicated(&batch)
	if err := db.SendBatch(ctx, &batch).Close(); err != nil {
		return Event{}, fmt.Errorf("read event: %w", err)
	}
	if len(found) == 0 {
		return Event{}, ErrNotFound
	}
	return found[0], nil
}

// AppendCloudEvent appends an event to a buffer as a CloudEvent with its cursor, and its personal data unless that was
// erased; see cloudevent.Append.
func AppendCloudEvent(buffer []byte, e *Event) ([]byte, error) {
	return cloudevent.Append(buffer, &e.Row, cloudevent.Attributes{Cursor: e.Cursor().String(), Personal: e.Personal})
}
