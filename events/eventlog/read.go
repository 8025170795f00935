package eventlog

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
)

// Querier is what reading needs: a connection, a pool or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// columns are what scan reads, in its order.
const columns = `transaction_id, position, stream_type, stream_id, stream_version, event_id, event_source, event_type,
       data, personal, salt, recorded_at`

// readStreamSQL reads one aggregate. $1: stream, $2: its kind, $3: version to start after, $4: how many at most, NULL
// for all.
const readStreamSQL = `SELECT ` + columns + `, metadata
FROM events WHERE ` + ofKind + ` AND stream_version > $3 ORDER BY stream_version LIMIT $4`

// readLatestSQL reads the end of one aggregate, latest first. $1: stream, $2: its kind, $3: how many at most.
const readLatestSQL = `SELECT ` + columns + `, metadata
FROM events WHERE ` + ofKind + ` ORDER BY stream_version DESC LIMIT $3`

// ofKind looks at the first event alone to tell the kind of a stream, of which the others are: reading those of a long
// one, to find that they are of another kind, would take long.
const ofKind = `stream_id = $1 AND (SELECT f.stream_type FROM events f WHERE f.stream_id = $1 AND f.stream_version = 1) = $2`

// readAfterSQL reads the log in its order, settled events only. $1, $2: position to start after, $3: how many.
const readAfterSQL = `SELECT ` + columns + `
FROM events
WHERE (transaction_id, position) > ($1, $2) AND transaction_id < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY transaction_id, position LIMIT $3`

// ReadStream returns the events of one aggregate with a version above afterVersion, oldest first, including those that
// log-order readers do not see yet. A stream that is unknown, or is not of this kind, has no events. Partners decide
// how long the stream of a novel gets, so this is for the others.
func ReadStream(
	ctx context.Context, q Querier, kind string, id uuid.UUID, afterVersion int,
) ([]events.Recorded, error) {
	return readStream(ctx, q, id, readStreamSQL, id, kind, afterVersion, nil)
}

// ReadStreamStart is ReadStream for the first events of a stream, as many as limit says.
func ReadStreamStart(ctx context.Context, q Querier, kind string, id uuid.UUID, limit int) ([]events.Recorded, error) {
	return readStream(ctx, q, id, readStreamSQL, id, kind, 0, limit)
}

// ReadStreamEnd is ReadStream for the latest events of a stream, as many as limit says.
func ReadStreamEnd(ctx context.Context, q Querier, kind string, id uuid.UUID, limit int) ([]events.Recorded, error) {
	recorded, err := readStream(ctx, q, id, readLatestSQL, id, kind, limit)
	slices.Reverse(recorded)
	return recorded, err
}

func readStream(ctx context.Context, q Querier, id uuid.UUID, sql string, args ...any) ([]events.Recorded, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", id, err)
	}
	recorded, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (events.Recorded, error) {
		var metadata []byte
		r, err := scan(row, &metadata)
		if err != nil {
			return events.Recorded{}, err
		}
		if err := json.Unmarshal(metadata, &r.Metadata); err != nil {
			return events.Recorded{}, fmt.Errorf("decode metadata of version %d: %w", r.StreamVersion, err)
		}
		return r, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", id, err)
	}
	return recorded, nil
}

// ReadAfter returns up to limit settled events behind a position, in log order, without their metadata.
func ReadAfter(ctx context.Context, q Querier, after events.Position, limit int) ([]events.Recorded, error) {
	rows, err := q.Query(ctx, readAfterSQL, after.TransactionID, after.Ordinal, limit)
	if err != nil {
		return nil, fmt.Errorf("read log after %s: %w", after, err)
	}
	recorded, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (events.Recorded, error) { return scan(row) })
	if err != nil {
		return nil, fmt.Errorf("read log after %s: %w", after, err)
	}
	return recorded, nil
}

// scan reads one row of columns, and whatever was selected behind them into more.
func scan(row rowScanner, more ...any) (events.Recorded, error) {
	return newScanner(more...).scan(row)
}

type rowScanner interface{ Scan(dest ...any) error }

// scanner reads rows of columns, from pgx and database/sql alike, into the same variables.
type scanner struct {
	recorded events.Recorded
	stored   events.Stored
	streamID pgtype.UUID // unlike uuid.UUID it travels in binary on every connection
	salt     pgtype.UUID
	dest     []any
	streams  []string // kinds of stream that are asked for; nil: all
	bytes    int      // that the events say which were asked for, so far
}

func newScanner(more ...any) *scanner {
	s := &scanner{}
	r := &s.recorded
	s.dest = append([]any{
		&r.Position.TransactionID, &r.Position.Ordinal, &r.StreamType, &s.streamID, &r.StreamVersion, &r.ID, &r.Source,
		&s.stored.Type,
		&s.stored.Data, &s.stored.Personal, &s.salt, &r.RecordedAt,
	}, more...)
	return s
}

// withoutCopies makes a scanner of pgx rows decode from the buffer of the connection.
func (s *scanner) withoutCopies() *scanner {
	for i, dest := range s.dest {
		switch dest {
		case &s.stored.Data, &s.stored.Personal:
			s.dest[i] = (*pgtype.DriverBytes)(dest.(*[]byte)) //nolint:forcetypeassert // that is what both are
		}
	}
	return s
}

// scan fails with an UndecodableError when the row is fine but the event in it cannot be read. An event of a kind of
// stream that nobody asks for is not decoded: it comes without its Event.
func (s *scanner) scan(row rowScanner) (events.Recorded, error) {
	if err := row.Scan(s.dest...); err != nil {
		return events.Recorded{}, fmt.Errorf("scan event: %w", err)
	}
	recorded := s.recorded
	recorded.StreamID, recorded.Salt = s.streamID.Bytes, uuid.NullUUID{UUID: s.salt.Bytes, Valid: s.salt.Valid}
	if !follows(s.streams, recorded.StreamType) {
		return recorded, nil
	}
	s.bytes += len(s.stored.Data) + len(s.stored.Personal)
	event, err := events.Decode(s.stored)
	if err != nil {
		return events.Recorded{}, &UndecodableError{Recorded: recorded, Type: s.stored.Type, err: err}
	}
	recorded.Event = event
	return recorded, nil
}

// UndecodableError says which stored event cannot be read.
type UndecodableError struct {
	Recorded events.Recorded // without its Event
	Type     string
	err      error
}

func (e *UndecodableError) Error() string {
	return fmt.Sprintf("event %s (version %d of %s %s): %v", e.Recorded.Position, e.Recorded.StreamVersion,
		e.Recorded.StreamType, e.Recorded.StreamID, e.err)
}

func (e *UndecodableError) Unwrap() error { return e.err }
