package eventlog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/internal/database"
)

// Columns are the columns of the table events that a Row scans, in this order.
const Columns = `log_index, stream_type, stream_id, stream_version, event_id, integration_id, event_source, event_type, data,
       personal, salt, recorded_at, batch_id, key_id, fingerprint, request_id, actor, correlation, causation,
       traceparent, personal_digest`

const columnCount = 21

// Row is a row of the table events, with its data not decoded.
type Row struct {
	LogIndex      int64
	StreamType    string
	StreamID      uuid.UUID
	StreamVersion int
	ID            string
	Source        string
	Type          string
	Data          []byte        // JSON
	Personal      []byte        // JSON; nil when the event has no personal part or it was erased
	Salt          uuid.NullUUID // erased together with Personal
	RecordedAt    time.Time     // to the microsecond
	Metadata      events.Metadata
	// PersonalDigest is the part of the ledger's entry that stands for Personal: one byte for the form, and the digest
	// (see ledger.Entry). An erasure stores it; nil when the event was not erased.
	PersonalDigest []byte

	integration uuid.NullUUID // of the source
	path        string        // the rest of the source
	actor       string        // the integration as an actor; "" without one
}

// Rows returns the rows of a statement that selects Columns. A row and its bytes are valid until the next one.
func Rows(ctx context.Context, q database.Querier, sql string, args ...any) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		rows, err := q.Query(ctx, sql, args...)
		if err != nil {
			yield(nil, err)
			return
		}
		defer rows.Close()
		var row Row
		for rows.Next() {
			if err := row.Scan(rows); err != nil {
				yield(nil, err)
				return
			}
			if !yield(&row, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// postgresEpoch is the epoch of PostgreSQL's timestamps, 2000-01-01, in microseconds since 1970.
const postgresEpoch = 946_684_800_000_000

var errRow = errors.New("row of the log has an unexpected form")

// Scan reads the current row of a result: Columns into r, and the following columns into more. It reads the binary
// format. Data, Personal and PersonalDigest point into the buffer of the connection, valid until its next row; Clone
// copies them. Texts equal to those of the previous row in r are not copied.
func (r *Row) Scan(row pgx.CollectableRow, more ...any) error {
	v := row.RawValues()
	if len(v) != columnCount+len(more) {
		return errRow
	}
	if err := r.set(v[:columnCount]); err != nil || len(more) == 0 {
		return err
	}
	if err := row.Scan(append(make([]any, columnCount, columnCount+len(more)), more...)...); err != nil { // nil: skipped
		return fmt.Errorf("scan event: %w", err)
	}
	return nil
}

// set decodes the raw values of Columns.
func (r *Row) set(v [][]byte) error {
	// log_index, stream_id, stream_version, recorded_at and batch_id
	if len(v) != columnCount || len(v[0]) != 8 || !isUUID(v[2]) || len(v[3]) != 4 || len(v[11]) != 8 || !isUUID(v[12]) {
		return errRow
	}
	for _, i := range [...]int{5, 10, 13, 14} { // integration_id, salt, key_id, fingerprint
		if v[i] != nil && !isUUID(v[i]) {
			return errRow
		}
	}
	r.LogIndex = int64(binary.BigEndian.Uint64(v[0])) //nolint:gosec // the column is a bigint
	r.StreamType = reuse(r.StreamType, v[1])
	r.StreamID = uuid.UUID(v[2])
	r.StreamVersion = int(int32(binary.BigEndian.Uint32(v[3]))) //nolint:gosec // the column is an integer
	r.ID, r.Type = reuse(r.ID, v[4]), reuse(r.Type, v[7])
	r.setSource(nullUUID(v[5]), v[6])
	r.Data, r.Personal, r.Salt = v[8], v[9], nullUUID(v[10])
	r.RecordedAt = time.UnixMicro(int64(binary.BigEndian.Uint64(v[11])) + postgresEpoch) //nolint:gosec // the column is a timestamp
	r.setMetadata(v[12:20])
	r.PersonalDigest = v[20]
	return nil
}

// mark returns the mark after the event.
func (r *Row) mark() Mark {
	return Mark{Position: events.Position(r.LogIndex + 1), Batch: r.Metadata.Batch}
}

// setSource sets the source, unless it equals that of the previous row, and the actor of the integration.
func (r *Row) setSource(integration uuid.NullUUID, path []byte) {
	if r.integration == integration && r.path == string(path) {
		return
	}
	r.integration, r.path = integration, string(path)
	r.Source, r.actor = r.path, ""
	if integration.Valid {
		r.Source, r.actor = events.JoinSource(integration.UUID, r.path), events.IntegrationActor(integration.UUID)
	}
}

// setMetadata decodes the columns of the metadata.
func (r *Row) setMetadata(v [][]byte) {
	before := r.Metadata
	r.Metadata = events.Metadata{
		Actor: r.actor, Batch: uuid.UUID(v[0]), KeyID: nullUUID(v[1]).UUID,
		Fingerprint: events.Fingerprint(nullUUID(v[2]).UUID), RequestID: reuse(before.RequestID, v[3]),
		Correlation: reuse(before.Correlation, v[5]), Causation: reuse(before.Causation, v[6]),
		TraceParent: reuse(before.TraceParent, v[7]),
	}
	if v[4] != nil {
		r.Metadata.Actor = string(v[4])
	}
}

func isUUID(value []byte) bool { return len(value) == len(uuid.UUID{}) }

// nullUUID converts the raw value of a uuid column, which may be NULL.
func nullUUID(value []byte) uuid.NullUUID {
	if value == nil {
		return uuid.NullUUID{}
	}
	return uuid.NullUUID{UUID: uuid.UUID(value), Valid: true}
}

// reuse returns text as a string: before, without an allocation, if it equals text.
func reuse(before string, text []byte) string {
	if before == string(text) {
		return before
	}
	return string(text)
}

// Clone returns a copy that does not depend on the connection.
func (r *Row) Clone() Row {
	kept := *r
	kept.Data, kept.Personal = bytes.Clone(r.Data), bytes.Clone(r.Personal)
	kept.PersonalDigest = bytes.Clone(r.PersonalDigest)
	return kept
}

// size is the number of stored bytes of data and personal.
func (r *Row) size() int { return len(r.Data) + len(r.Personal) }

// Decode returns the event, upcast to its current version. It fails with an UndecodableError when the event cannot be
// decoded.
func (r *Row) Decode() (events.Recorded, error) {
	recorded, undecodable := r.decode()
	if undecodable != nil {
		return events.Recorded{}, undecodable
	}
	return recorded, nil
}

func (r *Row) decode() (events.Recorded, *UndecodableError) {
	recorded := events.Recorded{
		LogIndex: r.LogIndex, StreamType: r.StreamType, StreamID: r.StreamID, StreamVersion: r.StreamVersion,
		ID: r.ID, Source: r.Source, Salt: r.Salt, Metadata: r.Metadata, RecordedAt: r.RecordedAt,
	}
	integration, _ := events.SplitSource(r.Source)
	event, err := events.Decode(events.Stored{
		Type: r.Type, Data: r.Data, Personal: r.Personal, Integration: integration,
	})
	if err != nil {
		return events.Recorded{}, &UndecodableError{Recorded: recorded, Type: r.Type, err: err}
	}
	recorded.Event = event
	return recorded, nil
}

// UndecodableError identifies a stored event that cannot be decoded.
type UndecodableError struct {
	Recorded events.Recorded // without Event
	Type     string
	err      error
}

func (e *UndecodableError) Error() string {
	return fmt.Sprintf("event %d (version %d of %s %s): %v", e.Recorded.LogIndex, e.Recorded.StreamVersion,
		e.Recorded.StreamType, e.Recorded.StreamID, e.err)
}

func (e *UndecodableError) Unwrap() error { return e.err }
