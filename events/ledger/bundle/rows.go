package bundle

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
)

//go:embed rows.sql
var rowsSQL string

// Database is what reading needs: a pool with the settings of database.OpenHistory.
type Database interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// binaryResults asks for every column as the database has it.
var binaryResults = pgx.QueryResultFormats{pgtype.BinaryFormatCode}

// postgresEpoch is where PostgreSQL begins to count, 2000-01-01, in microseconds since 1970.
const postgresEpoch = 946_684_800_000_000

var errRow = errors.New("row of the log has an unexpected form")

// ReadEvents reads the events that are stored in the places of count log indexes, from first on, up to the last one
// below size: usually as many, fewer when some were deleted, more when some were put in between, in front of the first
// one of the next chunk. It is two statements, and so two short transactions. It fails with a SealError where a place
// cannot be told.
func ReadEvents(ctx context.Context, db Database, first int64, count int, size int64) ([]Event, error) {
	list := make([]Event, 0, count)
	err := eachEvent(ctx, db, first, count, size, func(e *Event) error {
		kept := *e
		kept.Data, kept.Metadata = bytes.Clone(e.Data), bytes.Clone(e.Metadata)
		kept.Personal, kept.Salt = bytes.Clone(e.Personal), bytes.Clone(e.Salt)
		list = append(list, kept)
		return nil
	})
	return list, err
}

// eachEvent calls do with each of these events, whose bytes are gone when it returns.
func eachEvent(ctx context.Context, db Database, first int64, count int, size int64, do func(*Event) error) error {
	if count == 0 {
		return nil
	}
	end := first + int64(count)
	sealed, err := readSeals(ctx, db, first, min(end, size-1))
	if err != nil {
		return err
	}
	var from events.Position // what stands in front of the first event belongs to the first chunk
	if first > 0 {
		if from, err = sealed.locate(first); err != nil {
			return err
		}
	}
	until, err := sealed.locate(min(end, size-1))
	if err != nil {
		return err
	}
	if end == size {
		until.Ordinal++ // behind the last one
	}
	rows, err := db.Query(ctx, rowsSQL, binaryResults, from.TransactionID, from.Ordinal, until.TransactionID,
		until.Ordinal)
	if err != nil {
		return fmt.Errorf("read events from log index %d: %w", first, err)
	}
	defer rows.Close()
	var e Event
	at := 0
	for rows.Next() {
		position, err := e.scan(rows.RawValues())
		if err != nil {
			return err
		}
		e.LogIndex = sealed.index(position, &at)
		if err := do(&e); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read events from log index %d: %w", first, err)
	}
	return nil
}

// scan reads a row of rows.sql without copying its bytes.
func (e *Event) scan(v [][]byte) (events.Position, error) {
	const columns, uuidSize = 13, 16
	if len(v) != columns || len(v[0]) != 8 || len(v[1]) != 4 || len(v[3]) != uuidSize || len(v[4]) != 4 ||
		len(v[12]) != 8 ||
		v[10] != nil && len(v[10]) != uuidSize {
		return events.Position{}, errRow
	}
	e.StreamType, e.StreamID = same(e.StreamType, v[2]), [uuidSize]byte(v[3])
	e.StreamVersion = int32(binary.BigEndian.Uint32(v[4])) //nolint:gosec // it was sent as such
	e.ID, e.Source, e.Type = string(v[5]), same(e.Source, v[6]), same(e.Type, v[7])
	e.Data, e.Personal, e.Salt, e.Metadata = v[8], v[9], v[10], v[11]
	e.RecordedAt = time.UnixMicro(int64(binary.BigEndian.Uint64(v[12])) + postgresEpoch)                                     //nolint:gosec // it was sent as such
	return events.Position{TransactionID: binary.BigEndian.Uint64(v[0]), Ordinal: int32(binary.BigEndian.Uint32(v[1]))}, nil //nolint:gosec // it was sent as such
}

// same returns a text that is often the one before it, without copying it then.
func same(before string, text []byte) string {
	if before == string(text) {
		return before
	}
	return string(text)
}
