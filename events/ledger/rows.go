package ledger

import (
	"context"
	"fmt"
	"sort"

	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
)

// rowsSQL reads a range of the log. $1, $2: first position, $3, $4: end position, exclusive.
const rowsSQL = `SELECT ` + eventlog.Columns + `
FROM events
WHERE (transaction_id, position) >= ($1, $2) AND (transaction_id, position) < ($3, $4)
ORDER BY transaction_id, position`

// NoLogIndex is the log index of an event that was inserted between sealed events and never sealed.
const NoLogIndex = -1

// Event is an event of the log and its place in the ledger.
type Event struct {
	eventlog.Row
	LogIndex int64
	// Broken is the error of an event that cannot be read from a bundle, a service or the streams of a relay. nil for an
	// event of the database.
	Broken error
}

// EachEvent calls do, in log order, with the events of count log indexes from first on. The caller knows that all log
// indexes below size are sealed; first+count is at most size. Deleted events are missing. An event that was inserted
// between sealed ones belongs to the range before it, with NoLogIndex. The bytes of an event are valid only during the
// call of do. EachEvent runs two statements in two short transactions. It fails with a SealError unless each log index
// has one position.
func EachEvent(
	ctx context.Context, db database.Querier, first int64, count int, size int64, do func(*Event) error,
) error {
	if count == 0 {
		return nil
	}
	end := first + int64(count)
	sealed, err := readSeals(ctx, db, first, min(end, size-1))
	if err != nil {
		return err
	}
	var from events.Position // zero for the first range: it includes events inserted before the first sealed one
	if first > 0 {
		from = sealed.locate(first)
	}
	until := sealed.locate(min(end, size-1))
	if end == size {
		until.Ordinal++ // log index size has no position: end right after the last sealed event
	}
	var e Event
	at := 0
	for row, err := range eventlog.Rows(ctx, db, rowsSQL, from.TransactionID, from.Ordinal, until.TransactionID,
		until.Ordinal) {
		if err != nil {
			return fmt.Errorf("read events from log index %d: %w", first, err)
		}
		e.Row, e.LogIndex = *row, sealed.index(row.Position, &at)
		if err := do(&e); err != nil {
			return err
		}
	}
	return nil
}

// SealError means that a seal is missing or wrong, so that no event can be assigned to a log index. It is an
// ErrDamaged.
type SealError struct {
	LogIndex int64 // the first log index of the range that does not have exactly one transaction
	twice    bool  // the log index belongs to two transactions instead of none
}

// Error implements error.
func (e *SealError) Error() string {
	if e.twice {
		return fmt.Sprintf("%v: two transactions have log index %d", ErrDamaged, e.LogIndex)
	}
	return fmt.Sprintf("%v: no transaction has log index %d", ErrDamaged, e.LogIndex)
}

// Unwrap returns ErrDamaged.
func (*SealError) Unwrap() error { return ErrDamaged }

// sealsSQL reads the seals of a range of log indexes. $1, $2: first and last log index.
const sealsSQL = `SELECT transaction_id, first_log_index, event_count FROM ledger_seals
WHERE first_log_index >= coalesce((SELECT max(first_log_index) FROM ledger_seals WHERE first_log_index <= $1), 0)
    AND first_log_index <= $2
ORDER BY first_log_index`

// seals are the seals of a range, ordered by log index and therefore also by transaction.
type seals []sealRow

type sealRow struct {
	transaction uint64
	first       int64
	count       int32
}

// readSeals reads the seals of a range. It fails with a SealError unless each log index of the range has one position.
func readSeals(ctx context.Context, db database.Querier, first, last int64) (seals, error) {
	rows, _ := db.Query(ctx, sealsSQL, first, last) // CollectRows returns its error
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s sealRow, err error) {
		return s, row.Scan(&s.transaction, &s.first, &s.count)
	})
	if err != nil {
		return nil, fmt.Errorf("find log index %d: %w", first, err)
	}
	return list, seals(list).check(first, last)
}

// check fails with a SealError unless each log index of a range belongs to exactly one transaction.
func (s seals) check(first, last int64) error {
	next := first
	if len(s) > 0 {
		next = min(first, s[0].first)
	}
	for _, seal := range s {
		if seal.first < next {
			return &SealError{LogIndex: seal.first, twice: true}
		}
		if seal.first > next {
			break
		}
		next += int64(seal.count)
	}
	if next <= last {
		return &SealError{LogIndex: max(first, next)}
	}
	return nil
}

// locate returns the position of a log index of the range. Its event may be missing.
func (s seals) locate(index int64) events.Position {
	seal := s[sort.Search(len(s), func(i int) bool { return s[i].first > index })-1]
	return events.Position{TransactionID: seal.transaction, Ordinal: int32(index - seal.first)} //nolint:gosec // less than count
}

// index returns the log index of an event, or NoLogIndex for an event that was never sealed. Its calls must be in log
// order: i is the seal at which the search continues.
func (s seals) index(at events.Position, i *int) int64 {
	for *i < len(s) && s[*i].transaction < at.TransactionID {
		*i++
	}
	if *i == len(s) || s[*i].transaction != at.TransactionID || at.Ordinal >= s[*i].count {
		return NoLogIndex
	}
	return s[*i].first + int64(at.Ordinal)
}
