package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"novelgate/events"
	"novelgate/events/eventlog"
)

const (
	// batchLimit is the maximum number of events in one atomic batch. Servers accept up to 1,000.
	batchLimit  = 512
	pace        = 100 * time.Millisecond // see eventlog.Follow
	readTimeout = 30 * time.Second
	natsTimeout = 10 * time.Second // for one request
	// idleReads is the number of reads in a row without events, one a second, after which the relay looks at the streams:
	// only then it notices that one was deleted while nothing is published.
	idleReads = 30
)

// Config configures a Relay.
type Config struct {
	// Database configures the connection that holds the lock of the relay. Required.
	Database *pgx.ConnConfig
	// Conn is a connection to NATS; see Connect. Required.
	Conn *nats.Conn
	// Replicas is the number of servers that store a new stream: 1, 3 or 5. Required.
	Replicas int
	// Tail reads the log for all followers of a process. Required.
	Tail *eventlog.Tail
	// Wake signals appends. Default: the log is read once a second.
	Wake *eventlog.Wake
	// Metrics count events and erasures. Default: new, unregistered ones.
	Metrics *Metrics
	// Logger gets errors. Default: slog.Default.
	Logger *slog.Logger
}

// Relay publishes the events of one log. Create it with New.
type Relay struct {
	config Config
	js     jetstream.JetStream
	follow eventlog.Follow
	db     *pgx.Conn // nil: not connected

	authorKeys    map[uuid.UUID]string // by integration, see events.AuthorID
	loggedRefusal string               // text of the last refusal in the log
}

// New returns a relay; start it with Run.
func New(config Config) (*Relay, error) {
	config.Metrics = cmp.Or(config.Metrics, NewMetrics())
	config.Logger = cmp.Or(config.Logger, slog.Default())
	js, err := jetstream.New(config.Conn, jetstream.WithDefaultTimeout(natsTimeout))
	if err != nil {
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	return &Relay{config: config, js: js, authorKeys: map[uuid.UUID]string{}, follow: eventlog.Follow{
		Wake: config.Wake, Pace: pace, Logger: config.Logger.With(slog.String("of", "relay")),
		// A constant, so that Follow takes a turn after each wait of a standby: the relay tries to get the lock, whatever
		// the progress of the active one.
		Position: func(context.Context) (events.Position, error) { return 0, nil },
	}}, nil
}

// Run relays until ctx ends. It logs errors and retries.
func (r *Relay) Run(ctx context.Context) {
	r.follow.Run(ctx, r.turn)
	r.disconnect(ctx)
}

// RefusedError is the reason why the relay must not continue until an operator acts. It is an eventlog.ErrBlocked.
type RefusedError struct {
	Stream   string
	LogIndex int64 // of the first difference between stream and log; -1: the whole stream is refused
	tooLarge bool  // the event is too large for the servers; otherwise stream and log differ
	reason   string
}

// Error implements error.
func (e *RefusedError) Error() string {
	switch {
	case e.LogIndex < 0:
		return fmt.Sprintf("stream %s: %s", e.Stream, e.reason)
	case e.tooLarge:
		return fmt.Sprintf("stream %s cannot take the event at log index %d: %s", e.Stream, e.LogIndex, e.reason)
	}
	return fmt.Sprintf("stream %s and the log part at log index %d: %s", e.Stream, e.LogIndex, e.reason)
}

// Unwrap returns eventlog.ErrBlocked.
func (*RefusedError) Unwrap() error { return eventlog.ErrBlocked }

// Errors that end a turn.
var (
	errStandby   = fmt.Errorf("%w: it relays", eventlog.ErrStandby)
	errNewOrigin = errors.New("the ledger has another origin now")
	errNoOrigin  = errors.New("the ledger has no origin yet: no replica that signs has started")
	errLost      = errors.New("a stream was deleted, or has lost messages")
)

// turn relays from the current end of the streams until an error.
func (r *Relay) turn(ctx context.Context) (progress bool, err error) {
	defer func() { r.endTurn(ctx, err) }()
	if err := r.lock(ctx); err != nil {
		return false, err
	}
	r.config.Metrics.active.Set(1)
	t, err := r.begin(ctx)
	if err != nil {
		return false, err
	}
	err = r.follow.Each(ctx, func(ctx context.Context) (eventlog.Span, error) {
		span, err := t.step(ctx)
		progress = progress || span.Read > 0
		return span, err
	})
	return progress, err
}

// endTurn releases the lock, so that another relay may take over, and sets the metrics. It logs a refusal once.
func (r *Relay) endTurn(ctx context.Context, err error) {
	r.config.Metrics.active.Set(0)
	if errors.Is(err, errStandby) {
		r.config.Metrics.refused.Set(0) // the other relay says whether it refuses
		r.config.Metrics.relayed.Store(-1)
		return
	}
	r.disconnect(ctx)
	var refused *RefusedError
	if !errors.As(err, &refused) {
		return
	}
	r.config.Metrics.refused.Set(1)
	r.config.Metrics.relayed.Store(max(refused.LogIndex, 0))
	if text := refused.Error(); text != r.loggedRefusal {
		r.loggedRefusal = text
		r.config.Logger.ErrorContext(ctx, "The relay has stopped until an operator acts", slog.Any("reason", err))
	}
}

const lockSQL = `SELECT pg_try_advisory_lock(hashtextextended('novelgate relay', 0))`

// lock connects to the database and takes the lock. It fails with errStandby if another relay has it.
func (r *Relay) lock(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if r.db == nil || r.db.IsClosed() {
		if r.db, err = eventlog.Connect(ctx, r.config.Database); err != nil {
			return err
		}
	}
	var locked bool
	if err := r.db.QueryRow(ctx, lockSQL).Scan(&locked); err != nil {
		return fmt.Errorf("lock the relay: %w", err)
	}
	if !locked {
		return errStandby
	}
	return nil
}

// disconnect closes the connection, which releases the lock.
func (r *Relay) disconnect(ctx context.Context) {
	if r.db == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = r.db.Close(ctx) // an error does not matter, because the connection is not used again
	r.db = nil
}

// turn is one turn of the relay, with the streams that it has opened.
type turn struct {
	*Relay
	origin         string
	main, personal *stream
	at             eventlog.Mark  // after the last event that both streams have
	erased         map[int64]bool // log indexes of deleted or empty personal messages
	idle           int            // reads in a row that found no events
}

// begin opens the streams of the current origin and compares them with the log. It deletes the personal messages of all
// erased events up to the end of the main stream: a stream that was restored from a backup may still have them.
func (r *Relay) begin(ctx context.Context) (*turn, error) {
	origins, err := r.confirm(ctx, eventlog.Mark{})
	if err != nil {
		return nil, err
	}
	t := &turn{Relay: r, origin: origins[0], erased: map[int64]bool{}}
	if t.main, err = r.open(ctx, mainConfig, origins); err != nil {
		return nil, err
	}
	if t.personal, err = r.open(ctx, personalConfig, origins); err != nil {
		return nil, err
	}
	if err := t.compare(ctx); err != nil {
		return nil, err
	}
	r.loggedRefusal = ""
	r.config.Metrics.refused.Set(0)
	r.config.Metrics.relayed.Store(t.main.logIndex())
	return t, t.eraseUpTo(ctx, t.main.logIndex())
}

// confirmSQL reads the origins of the ledger, the current one first, and whether the log has a position $1 after a
// batch $2. It waits for the synchronous standby.
var confirmSQL = `SELECT ARRAY (SELECT origin FROM ledger_origins ORDER BY ordinal DESC), ` +
	eventlog.HasMarkSQL("$1::bigint", "$2::uuid") + `, ` + eventlog.ReplicatedSQL

// confirm returns the origins of the ledger, the current one first, when the log up to a mark survives a failover to a
// synchronous standby. It fails with eventlog.ErrOtherLog if the log does not have the mark, for instance because the
// Tail is connected to another server.
func (r *Relay) confirm(ctx context.Context, end eventlog.Mark) (origins []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var hasEnd bool
	err = r.db.QueryRow(ctx, confirmSQL, end.Position, end.Batch).Scan(&origins, &hasEnd, nil)
	switch {
	case err != nil:
	case !hasEnd:
		err = eventlog.ErrOtherLog
	case len(origins) == 0:
		err = errNoOrigin
	default:
		return origins, nil
	}
	return nil, fmt.Errorf("confirm the log up to %s: %w", end, err)
}

// step publishes the next events. Rows of the Tail may have personal data that was erased meanwhile: then author.erased
// comes later in the log, and its publication deletes their messages.
func (t *turn) step(ctx context.Context) (eventlog.Span, error) {
	span, rows, err := t.config.Tail.ReadRows(ctx, t.at)
	if err != nil {
		return eventlog.Span{}, err
	}
	origins, err := t.confirm(ctx, span.End)
	switch {
	case err != nil:
		return eventlog.Span{}, err
	case origins[0] != t.origin:
		return eventlog.Span{}, errNewOrigin
	case span.Read == 0:
		if t.idle++; t.idle%idleReads == 0 {
			err = errors.Join(t.look(ctx, t.main), t.look(ctx, t.personal))
		}
		return span, err
	}
	t.idle = 0
	list, err := t.messages(ctx, rows)
	if err != nil {
		return eventlog.Span{}, err
	}
	if err := t.publish(ctx, list); err != nil {
		return eventlog.Span{}, err
	}
	t.at = span.End
	t.config.Metrics.published(span.Read, t.main.logIndex())
	return span, nil
}

// look fails with errLost if a stream does not end with the last message that the relay has stored.
func (t *turn) look(ctx context.Context, s *stream) error {
	info, err := s.Info(ctx)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound), err == nil && info.State.LastSeq < s.last:
		t.config.Logger.WarnContext(ctx, "A stream was deleted, or has lost messages; filling it again from the log",
			slog.String("stream", s.name), slog.Int64("events", s.logIndex()))
		return fmt.Errorf("%w: %s", errLost, s.name)
	case err != nil:
		return fmt.Errorf("look at stream %s: %w", s.name, err)
	}
	return nil
}

// publish stores events in both streams: the personal parts first, so that a reader of the main stream finds them. It
// deletes the personal messages that an author.erased or post.withdrawn erases before it publishes to the main stream.
func (t *turn) publish(ctx context.Context, list []message) error {
	if err := t.personal.publish(ctx, t.js, list, (*message).personalPart); err != nil {
		return err
	}
	if err := t.eraseBefore(ctx, list); err != nil {
		return err
	}
	return t.main.publish(ctx, t.js, list, (*message).mainPart)
}
