package eventlog

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/database"
)

// readStreamSQL reads one aggregate. $1: stream, $2: its type, $3: version to start after.
const readStreamSQL = `SELECT ` + Columns + `
FROM events WHERE ` + streamOfTypeSQL + ` AND stream_version > $3 ORDER BY stream_version`

// readLatestSQL reads the end of one aggregate, latest first. $1: stream, $2: its type, $3: maximum number of events.
const readLatestSQL = `SELECT ` + Columns + `
FROM events WHERE ` + streamOfTypeSQL + ` ORDER BY stream_version DESC LIMIT $3`

// streamOfTypeSQL selects the events of a stream if it has a type. $1: stream, $2: its type. It checks only the first
// event: all events of a stream have the same type, and a long stream of another type would take long to read.
const streamOfTypeSQL = `stream_id = $1 AND (SELECT f.stream_type FROM events f WHERE f.stream_id = $1 AND f.stream_version = 1) = $2`

// ReadStream returns the events of one aggregate with a version above afterVersion, oldest first. An
// unknown stream, or one of another type, has no events. Do not use it for a novel: partners may make its stream long.
func ReadStream(
	ctx context.Context, q database.Querier, streamType string, id uuid.UUID, afterVersion int,
) ([]events.Recorded, error) {
	return readStream(ctx, q, readStreamSQL, streamType, id, afterVersion)
}

// ReadStreamEnd returns the latest events of a stream, up to limit, oldest first.
func ReadStreamEnd(
	ctx context.Context, q database.Querier, streamType string, id uuid.UUID, limit int,
) ([]events.Recorded, error) {
	recorded, err := readStream(ctx, q, readLatestSQL, streamType, id, limit)
	slices.Reverse(recorded)
	return recorded, err
}

// readStream decodes the rows of a statement with streamOfTypeSQL. args are its parameters from $3 on.
func readStream(
	ctx context.Context, q database.Querier, sql, streamType string, id uuid.UUID, args ...any,
) ([]events.Recorded, error) {
	recorded, err := collect(Rows(ctx, q, sql, append([]any{id, streamType}, args...)...))
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", id, err)
	}
	return recorded, nil
}

// ReadFrom returns up to limit events from a position on, in log order.
func ReadFrom(ctx context.Context, q database.Querier, from events.Position, limit int) ([]events.Recorded, error) {
	recorded := []events.Recorded{}
	for full := true; full && len(recorded) < limit; {
		chunk, err := ReadChunk(ctx, q, Mark{Position: from}, NewFetchSize(limit-len(recorded)), nil)
		if err != nil {
			return nil, err
		}
		if len(chunk.Undecodable) > 0 {
			return nil, chunk.Undecodable[0]
		}
		recorded = append(recorded, chunk.Events...)
		from, full = chunk.End.Position, chunk.Full
	}
	return recorded, nil
}

// collect decodes rows.
func collect(rows iter.Seq2[*Row, error]) ([]events.Recorded, error) {
	list := []events.Recorded{}
	for row, err := range rows {
		if err != nil {
			return nil, err
		}
		recorded, err := row.Decode()
		if err != nil {
			return nil, err
		}
		list = append(list, recorded)
	}
	return list, nil
}
