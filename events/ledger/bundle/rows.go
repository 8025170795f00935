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
	"novelgate/events/ledger"
)

//go:embed rows.sql
var rowsSQL string

// Database is what reading needs: a pool with the settings of database.OpenHistory.
type Database interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// locateSQL finds the transaction whose events have a log index. $1: log index.
const locateSQL = `SELECT transaction_id, first_log_index, event_count FROM ledger_seals
WHERE first_log_index <= $1 ORDER BY first_log_index DESC LIMIT 1`

// locate returns the place of a log index, which need not have its event any more.
func locate(ctx context.Context, db Database, index int64) (events.Position, error) {
	var p events.Position
	var first int64
	var count int32
	err := db.QueryRow(ctx, locateSQL, index).Scan(&p.TransactionID, &first, &count)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && index-first >= int64(count) {
		return events.Position{}, fmt.Errorf("%w: no transaction has log index %d", ledger.ErrDamaged, index)
	}
	if err != nil {
		return events.Position{}, fmt.Errorf("find log index %d: %w", index, err)
	}
	p.Ordinal = int32(index - first) //nolint:gosec // less than count
	return p, nil
}

// binaryResults asks for every column as the database has it.
var binaryResults = pgx.QueryResultFormats{pgtype.BinaryFormatCode}

// postgresEpoch is where PostgreSQL begins to count, 2000-01-01, in microseconds since 1970.
const postgresEpoch = 946_684_800_000_000

var errRow = errors.New("row of the log has an unexpected form")

// ReadEvents reads the events that are stored in the places of count log indexes, from first on, up to the last one below
// size: usually as many, fewer when some were deleted, more when some were put in between, in front of the first one of
// the next chunk. It is one statement, and so a short transaction.
func ReadEvents(ctx context.Context, db Database, first int64, count int, size int64) ([]Event, error) {
	if count == 0 {
		return nil, nil
	}
	var from events.Position // what stands in front of the first event belongs to the first chunk
	var err error
	if first > 0 {
		if from, err = locate(ctx, db, first); err != nil {
			return nil, err
		}
	}
	end := first + int64(count)
	until, err := locate(ctx, db, min(end, size-1))
	if err != nil {
		return nil, err
	}
	if end == size {
		until.Ordinal++ // behind the last one
	}
	rows, err := db.Query(ctx, rowsSQL, binaryResults, from.TransactionID, from.Ordinal, until.TransactionID, until.Ordinal)
	if err != nil {
		return nil, fmt.Errorf("read events from log index %d: %w", first, err)
	}
	defer rows.Close()
	list := make([]Event, 0, count)
	for rows.Next() {
		e, err := scan(rows.RawValues())
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read events from log index %d: %w", first, err)
	}
	return list, nil
}

// scan copies a row of rows.sql.
func scan(v [][]byte) (Event, error) {
	const columns, uuidSize = 12, 16
	if len(v) != columns || len(v[1]) != uuidSize || len(v[2]) != 4 || len(v[10]) != 8 || v[8] != nil && len(v[8]) != uuidSize ||
		v[11] != nil && len(v[11]) != 8 {
		return Event{}, errRow
	}
	e := Event{LogIndex: NoLogIndex, Event: ledger.Event{
		StreamType: string(v[0]), StreamID: [uuidSize]byte(v[1]),
		StreamVersion: int32(binary.BigEndian.Uint32(v[2])), //nolint:gosec // it was sent as such
		ID:            string(v[3]), Source: string(v[4]), Type: string(v[5]),
		Data: bytes.Clone(v[6]), Personal: bytes.Clone(v[7]), Salt: bytes.Clone(v[8]), Metadata: bytes.Clone(v[9]),
		RecordedAt: time.UnixMicro(int64(binary.BigEndian.Uint64(v[10])) + postgresEpoch), //nolint:gosec // it was sent as such
	}}
	if v[11] != nil {
		e.LogIndex = int64(binary.BigEndian.Uint64(v[11])) //nolint:gosec // it was sent as such
	}
	return e, nil
}
