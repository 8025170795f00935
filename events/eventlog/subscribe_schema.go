package eventlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	watersql "github.com/ThreeDotsLabs/watermill-sql/v3/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"novelgate/events"
)

// pollSQL reads settled events. It always returns a row: without events, one that is empty but for the identity of the
// log and "settled", which says that no transaction hides committed events (no older one is running). $1, $2: position
// to start behind, $3: how many.
const pollSQL = `SELECT e.*, s.settled, ` + IdentitySQL + `
FROM (SELECT pg_snapshot_xmin(c) AS xmin, pg_snapshot_xmin(c) = pg_snapshot_xmax(c) AS settled
    FROM pg_current_snapshot() AS c) AS s
LEFT JOIN LATERAL (
    SELECT ` + columnsWithoutMetadata + `
    FROM events
    WHERE (transaction_id, position) > ($1, $2) AND transaction_id < s.xmin
    ORDER BY transaction_id, position LIMIT $3
) AS e ON true`

// pollNothingSQL stands in for pollSQL when the events are at hand: its one row is the one without events.
const pollNothingSQL = `SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, pg_snapshot_xmin(c) = pg_snapshot_xmax(c), ` + IdentitySQL + `
FROM pg_current_snapshot() AS c`

// firstCapacity is what the first batch has room for before it grows.
const firstCapacity = 8

// poll is what the latest poll found.
type poll struct {
	events   int  // read, wherever they belong
	shared   bool // by another subscription, which may not have read all there is
	settled  bool
	identity Identity // of the log that was polled
}

// OpenPolls opens connections for the polls of subscriptions, at most so many.
func OpenPolls(config *pgx.ConnConfig, connections int) *sql.DB {
	db := stdlib.OpenDB(*config,
		stdlib.OptionAfterConnect(SetUpReader),
		// A poll that fails is repeated; a ping before it would only delay it.
		stdlib.OptionShouldPing(func(context.Context, stdlib.ShouldPingParams) bool { return false }))
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db
}

// SetUpReader fits a connection for reading the log. A plan that was made while the log was empty would sort all of it
// once it has grown.
func SetUpReader(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, `SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off`); err != nil {
		return fmt.Errorf("set up connection to read the log: %w", err)
	}
	return nil
}

// readOnly makes the transactions in which watermill-sql polls read-only.
type readOnly struct{ *sql.DB }

// BeginTx starts a read-only transaction.
func (db readOnly) BeginTx(ctx context.Context, options *sql.TxOptions) (*sql.Tx, error) {
	tx, err := db.DB.BeginTx(ctx, &sql.TxOptions{Isolation: options.Isolation, ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	return tx, nil
}

// subscribeSchema is the SchemaAdapter of the reading side.
type subscribeSchema Subscription

// SelectQuery returns the query for the next batch.
func (s *subscribeSchema) SelectQuery(string, string, watersql.OffsetsAdapter) watersql.Query {
	s.done() // in case the poll before has failed
	position := (*Subscription)(s).Position()
	var found stretch
	// What is read once more may have been mended by hand.
	again := s.batch.Start == position && s.batch.End != position
	if s.config.Tail != nil && !again {
		found, s.done = s.config.Tail.after(position, s.config.Limit, s.closed.Done())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.poll = poll{shared: len(found.events) > 0}
	s.batch, s.current = Batch{Start: position, End: position}, ""
	s.found = found
	if s.poll.shared {
		return watersql.Query{Query: pollNothingSQL}
	}
	return watersql.Query{Query: pollSQL, Args: []any{position.TransactionID, position.Ordinal, s.portion.Ask()}}
}

var (
	errNotRows  = errors.New("scanner is not *sql.Rows")
	errDisorder = errors.New("poll returned events out of order")
)

// UnmarshalMessage reads a portion of the rows, not only the current one, into one message, and closes them.
func (s *subscribeSchema) UnmarshalMessage(scanner watersql.Scanner) (watersql.Row, error) {
	rows, ok := scanner.(*sql.Rows)
	if !ok {
		return watersql.Row{}, errNotRows
	}
	defer s.done()
	s.mu.Lock()
	defer s.mu.Unlock()
	empty, err := s.readEmpty(rows)
	if err != nil {
		return watersql.Row{}, err
	}
	moved := s.identity != (Identity{}) && s.identity != s.poll.identity
	s.batch.Identity = s.poll.identity
	switch {
	case s.poll.shared && s.found.identity != s.poll.identity:
		s.config.Tail.forget()
		return watersql.Row{}, sql.ErrNoRows // the subscriber's word for: no message
	case s.poll.shared:
		s.deliver(s.found)
	case empty && moved: // the receiver must hear of it: nothing may come behind its position for long
	case empty:
		return watersql.Row{}, sql.ErrNoRows
	default:
		read, err := s.read(rows)
		if err != nil {
			return watersql.Row{}, err
		}
		if s.config.Tail != nil {
			s.config.Tail.add(read)
		}
		s.deliver(read)
	}
	s.found = stretch{}
	s.identity = s.poll.identity
	s.current = watermill.NewULID()
	// Offset 0: the receiver stores its progress itself, so the subscriber has nothing to acknowledge.
	return watersql.Row{Offset: 0, Msg: message.NewMessage(s.current, nil)}, nil
}

// readEmpty looks whether the first row is the one that stands for no events.
func (s *subscribeSchema) readEmpty(rows *sql.Rows) (bool, error) {
	var transaction sql.NullString
	dest := make([]any, 0, columnCount+2)
	dest = append(dest, &transaction)
	for len(dest) < columnCount {
		dest = append(dest, discard{})
	}
	if err := rows.Scan(append(dest, &s.poll.settled, &s.poll.identity)...); err != nil {
		return false, fmt.Errorf("scan first row: %w", err)
	}
	return !transaction.Valid, nil
}

// read reads a portion. What is shared is decoded whatever its stream: others may look at it.
func (s *subscribeSchema) read(rows *sql.Rows) (stretch, error) {
	read := stretch{
		identity: s.poll.identity, start: s.batch.Start, events: make([]events.Recorded, 0, max(s.latest, firstCapacity)),
	}
	row, bytes := newPolledRow(discard{}, discard{}), 0
	for more := true; more; more = !spent(bytes) && rows.Next() {
		if err := row.scan(rows); err != nil {
			return stretch{}, err
		}
		if row.Position.Compare(read.end()) <= 0 {
			return stretch{}, fmt.Errorf("%w: %s after %s", errDisorder, row.Position, read.end())
		}
		if s.config.Tail == nil && !follows(s.config.Streams, row.StreamType) {
			read.events = append(read.events, row.envelope())
			continue
		}
		bytes += row.size()
		recorded, err := row.Decode()
		if err != nil {
			var undecodable *UndecodableError
			if !errors.As(err, &undecodable) {
				return stretch{}, err
			}
			recorded = undecodable.Recorded
			read.setBroken(undecodable)
		}
		read.events = append(read.events, recorded)
	}
	if err := errors.Join(rows.Close(), rows.Err()); err != nil {
		return stretch{}, fmt.Errorf("read rows: %w", err)
	}
	read.full = s.portion.took(s.portion.Ask(), len(read.events), bytes)
	// Under load one batch is about as large as the one before.
	s.latest = len(read.events)
	return read, nil
}

// deliver makes the batch of what was read, up to the first event that is asked for and cannot be read.
func (s *subscribeSchema) deliver(read stretch) {
	s.poll.events = len(read.events)
	s.batch.End, s.batch.Full = read.end(), read.full
	if s.config.Streams == nil && read.broken == nil {
		s.batch.Events = read.events
		return
	}
	s.batch.Events = make([]events.Recorded, 0, len(read.events))
	before := read.start
	for i := range read.events {
		recorded := &read.events[i]
		if follows(s.config.Streams, recorded.StreamType) {
			if undecodable, ok := read.broken[recorded.Position]; ok {
				s.batch.Undecodable, s.batch.End = undecodable, before
				return
			}
			s.batch.Events = append(s.batch.Events, *recorded)
		}
		before = recorded.Position
	}
}

// discard is a scan target for what nobody wants.
type discard struct{}

// Scan implements sql.Scanner.
func (discard) Scan(any) error { return nil }

// InsertQuery is not used when subscribing.
func (*subscribeSchema) InsertQuery(string, message.Messages) (watersql.Query, error) {
	return watersql.Query{}, errReadOnly
}

var errReadOnly = errors.New("this adapter only reads")

// SchemaInitializingQueries returns nothing: migrations own the schema.
func (*subscribeSchema) SchemaInitializingQueries(string) []watersql.Query { return nil }

// SubscribeIsolationLevel returns the cheapest level: a poll is one statement.
func (*subscribeSchema) SubscribeIsolationLevel() sql.IsolationLevel { return sql.LevelReadCommitted }

// noOffsets is the OffsetsAdapter: receivers store their progress in their own transaction, not in the poll's.
type noOffsets struct{}

// AckMessageQuery is not used, since all offsets are 0.
func (noOffsets) AckMessageQuery(string, watersql.Row, string) watersql.Query {
	return watersql.Query{}
}

// ConsumedMessageQuery returns nothing to execute.
func (noOffsets) ConsumedMessageQuery(string, watersql.Row, string, []byte) watersql.Query {
	return watersql.Query{}
}

// NextOffsetQuery is not used by SelectQuery.
func (noOffsets) NextOffsetQuery(string, string) watersql.Query { return watersql.Query{} }

// SchemaInitializingQueries returns nothing: migrations own the schema.
func (noOffsets) SchemaInitializingQueries(string) []watersql.Query { return nil }

// BeforeSubscribingQueries returns nothing to execute.
func (noOffsets) BeforeSubscribingQueries(string, string) []watersql.Query { return nil }
