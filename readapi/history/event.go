package history

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events"
)

// Event is an event as it is stored: its data is not decoded.
type Event struct {
	Position      events.Position
	LogIndex      *int64 // place in the ledger; nil until it is sealed
	StreamType    string
	StreamID      uuid.UUID
	StreamVersion int
	ID            string
	Source        string
	Type          string
	Data          []byte // the stored JSON
	Personal      []byte // the stored JSON; nil when there is none, or none any more
	Metadata      events.Metadata
	RecordedAt    time.Time

	digest digest // see Cursor
}

// columns are what scan reads, in its order, of an event e.
const columns = `e.transaction_id, e.position, e.stream_type, e.stream_id, e.stream_version, e.event_id, e.event_source, e.event_type,
       e.data, e.personal, e.metadata, e.recorded_at,
       (SELECT s.first_log_index + e.position FROM ledger_seals s WHERE s.transaction_id = e.transaction_id), ` + digestSQL

func scan(row pgx.CollectableRow) (Event, error) {
	var e Event
	var metadata, sum []byte
	if err := row.Scan(&e.Position.TransactionID, &e.Position.Ordinal, &e.StreamType, &e.StreamID, &e.StreamVersion, &e.ID,
		&e.Source, &e.Type,
		&e.Data, &e.Personal, &metadata, &e.RecordedAt, &e.LogIndex, &sum); err != nil {
		return Event{}, fmt.Errorf("scan event: %w", err)
	}
	copy(e.digest[:], sum)
	if err := json.Unmarshal(metadata, &e.Metadata); err != nil {
		return Event{}, fmt.Errorf("decode metadata of event %s: %w", e.Position, err)
	}
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
	event, err := events.Decode(events.Stored{Type: e.Type, Data: e.Data, Personal: e.Personal})
	if err != nil {
		return events.Recorded{}, fmt.Errorf("event %s: %w", e.Position, err)
	}
	return events.Recorded{
		Position: e.Position, StreamType: e.StreamType, StreamID: e.StreamID, StreamVersion: e.StreamVersion,
		ID: e.ID, Source: e.Source, Event: event, Metadata: e.Metadata, RecordedAt: e.RecordedAt,
	}, nil
}
