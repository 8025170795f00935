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
	LogIndex *int64 // nil until it is sealed

	digest digest // see Cursor
	count  int64
}

// Cursor returns the cursor after the event.
func (e *Event) Cursor() Cursor {
	return Cursor{Position: e.Position, digest: e.digest, count: e.count}
}

// columns are the columns of an event e that scan reads, followed by a count.
const columns = eventlog.Columns + `,
       (SELECT s.first_log_index + e.position FROM ledger_seals s WHERE s.transaction_id = e.transaction_id), ` + digestSQL

// countedColumns are columns with a computed count.
var countedColumns = columns + ", " + countOrZeroSQL

// scan scans an event. It reuses texts of row, which has the previous event.
func scan(result pgx.CollectableRow, row *eventlog.Row) (Event, error) {
	var e Event
	if err := row.Scan(result, &e.LogIndex, &e.digest, &e.count); err != nil {
		return Event{}, err
	}
	e.Row = row.Clone()
	return e, nil
}

var oneSQL = "SELECT " + countedColumns + "\nFROM events AS e WHERE e.transaction_id = $1 AND e.position = $2"

// At returns the event with a log index; ErrNotFound when there is none.
func At(ctx context.Context, db database.DB, index int64) (Event, error) {
	position, err := locate(ctx, db, index)
	if errors.Is(err, ErrBeyond) {
		return Event{}, ErrNotFound
	}
	if err != nil {
		return Event{}, err
	}
	return one(ctx, db, oneSQL, position.TransactionID, position.Ordinal)
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

var versionSQL = "SELECT " + countedColumns + `
FROM events AS e WHERE e.stream_id = $1 AND e.stream_version = $2 AND e.transaction_id < pg_snapshot_xmin(pg_current_snapshot())`

// Version returns one version of a stream; ErrNotFound when there is none, or it has not settled yet.
func Version(ctx context.Context, db database.DB, stream uuid.UUID, version int) (Event, error) {
	return one(ctx, db, versionSQL, stream, version)
}

func one(ctx context.Context, db database.DB, sql string, args ...any) (Event, error) {
	rows, _ := db.Query(ctx, sql, args...) // CollectExactlyOneRow returns its error
	e, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (Event, error) {
		return scan(row, &eventlog.Row{})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return Event{}, ErrNotFound
	}
	if err != nil {
		return Event{}, fmt.Errorf("read event: %w", err)
	}
	return e, nil
}

// AppendCloudEvent appends an event to a buffer as a CloudEvent with its log index, cursor and personal data, unless
// erased; see cloudevent.Append.
func AppendCloudEvent(buffer []byte, e *Event) ([]byte, error) {
	return cloudevent.Append(buffer, &e.Row, cloudevent.Attributes{
		LogIndex: e.LogIndex, Cursor: e.Cursor().String(), Personal: e.Personal,
	})
}
