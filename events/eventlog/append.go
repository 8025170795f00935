package eventlog

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	_ "embed"
	"errors"
	"fmt"
	"slices"

	watersql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
)

// ErrLostAppend is returned when the database accepted an append but stored another number of rows than were sent.
var ErrLostAppend = errors.New("append stored another number of events than were sent")

// Queue adds the statement that appends the events, in the order given, to a batch. The batch runs as one
// transaction and its first write must be this statement. The envelope's Position and RecordedAt are ignored: the
// database assigns them.
func Queue(batch *pgx.Batch, recorded []events.Recorded) error {
	_, err := QueueMeasured(batch, recorded)
	return err
}

// QueueMeasured is Queue and returns how many bytes each event takes in the log: its data, what is personal, and its
// metadata.
func QueueMeasured(batch *pgx.Batch, recorded []events.Recorded) (bytes []int, err error) {
	rows := make([]Row, len(recorded))
	bytes = make([]int, len(recorded))
	for i := range recorded {
		if rows[i], err = newRow(&recorded[i]); err != nil {
			return nil, err
		}
		bytes[i] = rows[i].size() + len(rows[i].Metadata)
	}
	publisher, err := watersql.NewPublisher(queue{batch: batch, rows: int64(len(rows))},
		watersql.PublisherConfig{SchemaAdapter: appendSchema{rows: rows}}, nil)
	if err != nil {
		return nil, fmt.Errorf("create publisher: %w", err)
	}
	// As where the log is read, one message is a batch.
	if err := publisher.Publish(Topic, message.NewMessage("", nil)); err != nil {
		return nil, fmt.Errorf("append events: %w", err)
	}
	return bytes, nil
}

// newRow encodes an event.
func newRow(recorded *events.Recorded) (Row, error) {
	stored, err := events.Encode(recorded.Event)
	if err != nil {
		return Row{}, err
	}
	metadata, err := events.EncodeMetadata(&recorded.Metadata)
	if err != nil {
		return Row{}, fmt.Errorf("%s: %w", stored.Type, err)
	}
	return Row{
		StreamType: recorded.StreamType, StreamID: recorded.StreamID, StreamVersion: recorded.StreamVersion,
		ID: recorded.ID, Source: recorded.Source, Type: stored.Type, Data: stored.Data, Personal: stored.Personal,
		Salt: recorded.Salt, Metadata: metadata,
	}, nil
}

// queue is what the Publisher executes its statement on: a batch, so that the append costs no round trip of its own.
// The Publisher calls ExecContext only.
type queue struct {
	watersql.ContextExecutor

	batch *pgx.Batch
	rows  int64
}

// ExecContext queues a statement.
func (q queue) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	q.batch.Queue(query, args...).Exec(func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() != q.rows {
			return fmt.Errorf("%w: %d instead of %d", ErrLostAppend, tag.RowsAffected(), q.rows)
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

	rows []Row
}

// InsertQuery returns one statement that inserts the rows, sorted by stream and version.
func (s appendSchema) InsertQuery(string, message.Messages) (watersql.Query, error) {
	rows := s.rows
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(bytes.Compare(rows[a].StreamID[:], rows[b].StreamID[:]),
			cmp.Compare(rows[a].StreamVersion, rows[b].StreamVersion))
	})

	var (
		positions   = make([]int32, 0, len(rows))
		streamTypes = make([]string, 0, len(rows))
		streamIDs   = make([]uuid.UUID, 0, len(rows))
		versions    = make([]int32, 0, len(rows))
		ids         = make([]string, 0, len(rows))
		sources     = make([]string, 0, len(rows))
		types       = make([]string, 0, len(rows))
		data        = make([][]byte, 0, len(rows))
		personal    = make([][]byte, 0, len(rows)) // nil is NULL
		salts       = make(pgtype.FlatArray[pgtype.UUID], 0, len(rows))
		metadata    = make([][]byte, 0, len(rows))
	)
	for _, i := range order {
		r := &rows[i]
		positions = append(positions, int32(i)) //nolint:gosec // a batch has far fewer than 2^31 events
		streamTypes = append(streamTypes, r.StreamType)
		streamIDs = append(streamIDs, r.StreamID)
		versions = append(versions, int32(r.StreamVersion)) //nolint:gosec // the column is an integer; its check refuses overflow
		ids = append(ids, r.ID)
		sources = append(sources, r.Source)
		types = append(types, r.Type)
		data = append(data, r.Data)
		personal = append(personal, r.Personal)
		salts = append(salts, pgtype.UUID{Bytes: r.Salt.UUID, Valid: r.Salt.Valid})
		metadata = append(metadata, r.Metadata)
	}
	return watersql.Query{
		Query: appendSQL,
		Args:  []any{positions, streamTypes, streamIDs, versions, ids, sources, types, data, personal, salts, metadata},
	}, nil
}
