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

// topic is the one topic of the log.
const topic = "events"

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
		watersql.PublisherConfig{SchemaAdapter: appendSchema{}}, nil)
	if err != nil {
		return nil, fmt.Errorf("create publisher: %w", err)
	}
	// As where the log is read, one message is a batch: its rows travel to the schema adapter in its context.
	if err := publisher.Publish(topic,
		message.NewMessageWithContext(context.WithValue(context.Background(), rowsKey{}, rows), "", nil)); err != nil {
		return nil, fmt.Errorf("append events: %w", err)
	}
	return bytes, nil
}

type rowsKey struct{}

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

// queue is the ContextExecutor over which the Publisher writes into a batch: nothing is sent before the batch is,
// so the append costs no round trip of its own.
type queue struct {
	batch *pgx.Batch
	rows  int64
}

var errQueueOnly = errors.New("only ExecContext is available on a queue")

func (q queue) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	q.batch.Queue(query, args...).Exec(func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() != q.rows {
			return fmt.Errorf("%w: %d instead of %d", ErrLostAppend, tag.RowsAffected(), q.rows)
		}
		return nil
	})
	return driver.ResultNoRows, nil
}

func (q queue) Exec(query string, args ...any) (sql.Result, error) {
	return q.ExecContext(context.Background(), query, args...)
}

func (queue) Query(string, ...any) (*sql.Rows, error) { return nil, errQueueOnly }

func (queue) QueryContext(context.Context, string, ...any) (*sql.Rows, error) {
	return nil, errQueueOnly
}

// QueryRow has no way to return an error; the Publisher never calls it.
func (queue) QueryRow(string, ...any) *sql.Row { return nil }

// QueryRowContext has no way to return an error; the Publisher never calls it.
func (queue) QueryRowContext(context.Context, string, ...any) *sql.Row { return nil }

//go:embed append.sql
var appendSQL string

// appendSchema is the SchemaAdapter of the publishing side.
type appendSchema struct{}

var errNoRows = errors.New("not one message that was made by this package")

// InsertQuery returns one statement that inserts the rows of the message, sorted by stream and version.
func (appendSchema) InsertQuery(_ string, messages message.Messages) (watersql.Query, error) {
	if len(messages) != 1 {
		return watersql.Query{}, errNoRows
	}
	rows, ok := messages[0].Context().Value(rowsKey{}).([]Row)
	if !ok {
		return watersql.Query{}, errNoRows
	}
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
		salts       = make([]pgtype.UUID, 0, len(rows))
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

var errAppendOnly = errors.New("this adapter only appends")

// SelectQuery is not used when publishing.
func (appendSchema) SelectQuery(string, string, watersql.OffsetsAdapter) watersql.Query {
	return watersql.Query{}
}

// UnmarshalMessage is not used when publishing.
func (appendSchema) UnmarshalMessage(watersql.Scanner) (watersql.Row, error) {
	return watersql.Row{}, errAppendOnly
}

// SchemaInitializingQueries returns nothing: migrations own the schema.
func (appendSchema) SchemaInitializingQueries(string) []watersql.Query { return nil }

// SubscribeIsolationLevel is not used when publishing.
func (appendSchema) SubscribeIsolationLevel() sql.IsolationLevel { return sql.LevelReadCommitted }
