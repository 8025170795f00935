package ledger

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
	"novelgate/events/eventlog"
)

//go:embed read.sql
var readSQL string

// lastPositionSQL finds the end of a transaction. $1: the transaction.
const lastPositionSQL = `SELECT max(position) FROM events WHERE transaction_id = $1`

// postgresEpoch is where PostgreSQL begins to count, 2000-01-01, in microseconds since 1970.
const postgresEpoch = 946_684_800_000_000

// binaryResults asks for every column as the database has it: nothing is formatted there or parsed here.
var binaryResults = pgx.QueryResultFormats{pgtype.BinaryFormatCode}

var errRow = errors.New("row of the log has an unexpected form")

// readEvents calls each with up to limit settled events behind a position, in log order, and returns how many there
// were. The event is valid during the call.
func readEvents(
	ctx context.Context, db eventlog.Querier, after events.Position, limit int, each func(*rawEvent) error,
) (int, error) {
	rows, err := db.Query(ctx, readSQL, binaryResults, after.TransactionID, after.Ordinal, limit)
	if err != nil {
		return 0, fmt.Errorf("read log after %s: %w", after, err)
	}
	defer rows.Close()
	n := 0
	var e rawEvent
	for ; rows.Next(); n++ {
		if err := e.set(rows.RawValues()); err != nil {
			return n, err
		}
		if err := each(&e); err != nil {
			return n, err
		}
	}
	if err := rows.Err(); err != nil {
		return n, fmt.Errorf("read log after %s: %w", after, err)
	}
	return n, nil
}

// set takes a row of read.sql.
func (e *rawEvent) set(v [][]byte) error {
	const columns, uuidSize = 13, 16
	if len(v) != columns || len(v[0]) != 8 || len(v[1]) != 4 || len(v[3]) != uuidSize || len(v[4]) != 4 ||
		len(v[12]) != 8 ||
		v[10] != nil && len(v[10]) != uuidSize {
		return errRow
	}
	*e = rawEvent{
		transactionID: binary.BigEndian.Uint64(v[0]),
		position:      int32(binary.BigEndian.Uint32(v[1])), //nolint:gosec // it was sent as such
		streamType:    v[2], streamID: v[3],
		streamVersion: int32(binary.BigEndian.Uint32(v[4])), //nolint:gosec // it was sent as such
		id:            v[5], source: v[6], eventType: v[7],
		data: v[8], personal: v[9], salt: v[10], metadata: v[11],
		recordedAt: int64(binary.BigEndian.Uint64(v[12])) + postgresEpoch, //nolint:gosec // it was sent as such
	}
	return nil
}
