package eventlog

import (
	"context"
	"database/sql"
	"database/sql/driver"
	_ "embed"
	"errors"
	"fmt"

	watersql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
)

// ErrLostAppend is returned when the database accepted an append but stored a different number of rows.
var ErrLostAppend = errors.New("append stored another number of events than were sent")

// Queue adds the statement that appends the events, in the order given, to a batch, after that of Lock. It sets the
// Metadata.Batch of all events to a new id: each attempt to append has its own, so an event with a log index and a
// batch id identifies everything before it. The envelope's LogIndex and RecordedAt are ignored: the database assigns
// them.
func Queue(batch *pgx.Batch, recorded []events.Recorded) error {
	_, err := QueueMeasured(batch, recorded)
	return err
}

// rowBytes is the approximate size of a row of the log with its index entries, without data and personal.
const rowBytes = 450

// QueueMeasured is Queue, and returns the approximate size of each event in the log, in bytes.
func QueueMeasured(batch *pgx.Batch, recorded []events.Recorded) (bytes []int, err error) {
	stored := make([]events.Stored, len(recorded))
	bytes = make([]int, len(recorded))
	id := uuid.New()
	for i := range recorded {
		recorded[i].Metadata.Batch = id
		if stored[i], err = events.Encode(recorded[i].Event); err != nil {
			return nil, err
		}
		bytes[i] = len(stored[i].Data) + len(stored[i].Personal) + rowBytes
	}
	publisher, err := watersql.NewPublisher(batchExecutor{batch: batch, rows: int64(len(stored))},
		watersql.PublisherConfig{SchemaAdapter: appendSchema{id: id, recorded: recorded, stored: stored}}, nil)
	if err != nil {
		return nil, fmt.Errorf("create publisher: %w", err)
	}
	// Publish calls appendSchema.InsertQuery for the statement, and batchExecutor.ExecContext to queue it. The empty
	// message stands for all events; InsertQuery ignores it.
	if err := publisher.Publish(Topic, message.NewMessage("", nil)); err != nil {
		return nil, fmt.Errorf("append events: %w", err)
	}
	return bytes, nil
}

// batchExecutor adds the statement of the Publisher to a batch, so that the append costs no round trip of its own. The
// Publisher calls ExecContext only.
type batchExecutor struct {
	watersql.ContextExecutor

	batch *pgx.Batch
	rows  int64 // that the statement must insert
}

// ExecContext queues a statement.
func (e batchExecutor) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	e.batch.Queue(query, args...).Exec(func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() != e.rows {
			return fmt.Errorf("%w: %d instead of %d", ErrLostAppend, tag.RowsAffected(), e.rows)
		}
		return nil
	})
	return driver.ResultNoRows, nil
}

//go:embed append.sql
var appendSQL string

// appendSchema is the SchemaAdapter of one append. The Publisher calls InsertQuery only.
type appendSchema struct {
	watersql.SchemaAdapter

	id       uuid.UUID // of the append
	recorded []events.Recorded
	stored   []events.Stored
}

// InsertQuery returns one statement that inserts all events.
func (s appendSchema) InsertQuery(string, message.Messages) (watersql.Query, error) {
	count := len(s.recorded)
	var (
		versions             = make([]int32, count)
		streamTypes, ids     = make([]string, count), make([]string, count)
		sources, types       = make([]string, count), make([]string, count)
		streamIDs            = make([]uuid.UUID, count)
		data, personal       = make([][]byte, count), make([][]byte, count) // nil is NULL
		integrations, salts  = make(uuids, count), make(uuids, count)
		keys, fingerprints   = make(uuids, count), make(uuids, count)
		requests, actors     = make(texts, count), make(texts, count)
		correlations, causes = make(texts, count), make(texts, count)
		traces               = make(texts, count)
	)
	for i := range s.recorded {
		r, m := &s.recorded[i], &s.recorded[i].Metadata
		integration, path := events.SplitSource(r.Source)
		versions[i] = int32(r.StreamVersion) //nolint:gosec // after an overflow it is negative, which the table refuses
		streamTypes[i], streamIDs[i] = r.StreamType, r.StreamID
		ids[i], sources[i], types[i] = r.ID, path, s.stored[i].Type
		data[i], personal[i] = s.stored[i].Data, s.stored[i].Personal
		integrations[i] = pgtype.UUID{Bytes: integration.UUID, Valid: integration.Valid}
		salts[i] = pgtype.UUID{Bytes: r.Salt.UUID, Valid: r.Salt.Valid}
		keys[i], fingerprints[i] = nullable(m.KeyID), nullable(m.Fingerprint)
		requests[i], traces[i] = text(m.RequestID), text(m.TraceParent)
		actors[i] = text(storedActor(m.Actor, integration))
		correlations[i], causes[i] = text(m.Correlation), text(m.Causation)
	}
	return watersql.Query{
		Query: appendSQL,
		Args: []any{
			count, s.id, streamTypes, streamIDs, versions, ids, integrations, sources, types, data, personal, salts,
			keys, fingerprints, requests, actors, correlations, causes, traces,
		},
	}, nil
}

// storedActor returns the value of the column actor: empty if the actor is the integration in integration_id.
func storedActor(actor string, integration uuid.NullUUID) string {
	if integration.Valid && actor == events.IntegrationActor(integration.UUID) {
		return ""
	}
	return actor
}

// Columns that may be NULL.
type (
	uuids = pgtype.FlatArray[pgtype.UUID]
	texts = pgtype.FlatArray[pgtype.Text]
)

// nullable converts zeros to NULL.
func nullable(id [16]byte) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: id != [16]byte{}} }

// text converts an empty text to NULL.
func text(s string) pgtype.Text { return pgtype.Text{String: s, Valid: s != ""} }
