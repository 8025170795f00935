package history

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/events/eventlog"
)

// Event is an event as it is stored: its data is not decoded.
type Event struct {
	eventlog.Row
	LogIndex *int64          // place in the ledger; nil until it is sealed
	Metadata events.Metadata // decoded; that of Row is nil

	digest digest // see Cursor
	count  int64
}

// columns are what scan reads, in its order, of an event e; a count follows.
const columns = eventlog.Columns + `,
       (SELECT s.first_log_index + e.position FROM ledger_seals s WHERE s.transaction_id = e.transaction_id), ` + digestSQL

// countedColumns are columns with the count, which may be NULL.
var countedColumns = columns + ", " + countSQL("e.transaction_id", "e.position")

// scan reads an event. It reuses the texts of row, which has the event before it, if any.
func scan(result pgx.CollectableRow, row *eventlog.Row) (Event, error) {
	var e Event
	var sum []byte
	var count *int64
	if err := row.Scan(result, &e.LogIndex, &sum, &count); err != nil {
		return Event{}, err
	}
	if count != nil {
		e.count = *count
	}
	copy(e.digest[:], sum)
	if err := json.Unmarshal(row.Metadata, &e.Metadata); err != nil {
		return Event{}, fmt.Errorf("decode metadata of event %s: %w", row.Position, err)
	}
	row.Metadata = nil
	e.Row = row.Clone()
	return e, nil
}

// Correlation is the same for all events of one undertaking: what was recorded, or else the id of the request.
func (e *Event) Correlation() string {
	if e.Metadata.Correlation != "" {
		return e.Metadata.Correlation
	}
	return e.Metadata.RequestID
}

// Decode returns the event in the form that this version of the program works with. It fails with
// events.ErrUnknownType when a newer one wrote it.
func (e *Event) Decode() (events.Recorded, error) {
	recorded, err := e.Row.Decode()
	recorded.Metadata = e.Metadata
	return recorded, err
}
