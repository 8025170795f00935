package eventlog

import (
	"bytes"
	"cmp"
	"database/sql"
	_ "embed"
	"errors"
	"slices"

	watersql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

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
