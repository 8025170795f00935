package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/events/ledger"
)

const (
	// chunk is how many events are published at once. Servers take batches of up to 1,000.
	chunk       = 512
	pace        = 100 * time.Millisecond // see eventlog.Follow
	readTimeout = 30 * time.Second
	natsTimeout = 10 * time.Second // for one request
)

// Config says how a Relay works.
type Config struct {
	// Database is where the one connection of the relay goes. Required.
	Database *pgx.ConnConfig
	// Conn is a connection to NATS that Connect has made. Required.
	Conn *nats.Conn
	// Replicas is the number of servers that store a stream that the relay makes. Default: 3.
	Replicas int
	// Tail reads the newest events for all followers of a process. Default: the relay reads them itself.
	Tail *eventlog.Tail
	// Wake tells of appends. Without one the ledger is polled once a second.
	Wake *eventlog.Wake
	// Metrics count. Default: new ones, not registered.
	Metrics *Metrics
	// Logger gets what goes wrong. Default: slog.Default.
	Logger *slog.Logger
}

// DefaultReplicas is the default of Config.Replicas.
const DefaultReplicas = 3

// Relay publishes the sealed events of one log. Create it with New.
type Relay struct {
	config  Config
	js      jetstream.JetStream
	follow  eventlog.Follow
	db      *pgx.Conn // nil: not connected
	refused string    // the last refusal that was logged
}

// New returns a relay that does nothing before Run.
func New(config Config) (*Relay, error) {
	config.Replicas = cmp.Or(config.Replicas, DefaultReplicas)
	config.Metrics = cmp.Or(config.Metrics, NewMetrics())
	config.Logger = cmp.Or(config.Logger, slog.Default())
	js, err := jetstream.New(config.Conn, jetstream.WithDefaultTimeout(natsTimeout))
	if err != nil {
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	return &Relay{config: config, js: js, follow: eventlog.Follow{
		Wake: config.Wake, Pace: pace, Logger: config.Logger.With(slog.String("of", "relay")),
		// The lock tells who is active, not progress.
		Position: func(context.Context) (events.Position, error) { return events.Position{}, nil },
	}}, nil
}

// Run relays until ctx ends. What goes wrong is logged and tried again.
func (r *Relay) Run(ctx context.Context) {
	r.follow.Run(ctx, r.turn)
	r.disconnect(ctx)
}

// RefusedError says why the relay must not continue until an operator acts. It is an eventlog.ErrBlocked.
type RefusedError struct {
	Stream   string
	LogIndex int64 // where stream and log part; -1: the stream as a whole is refused
	reason   string
}

// Error implements error.
func (e *RefusedError) Error() string {
	if e.LogIndex < 0 {
		return fmt.Sprintf("stream %s: %s", e.Stream, e.reason)
	}
	return fmt.Sprintf("stream %s and the log part at log index %d: %s", e.Stream, e.LogIndex, e.reason)
}

// Unwrap lets errors.Is find eventlog.ErrBlocked.
func (*RefusedError) Unwrap() error { return eventlog.ErrBlocked }

// Reasons to begin another turn.
var (
	errStandby   = fmt.Errorf("%w: it relays", eventlog.ErrStandby)
	errSetBack   = errors.New("the ledger is behind the stream")
	errNewOrigin = errors.New("the ledger has another origin now")
	errNoOrigin  = errors.New("the ledger has no origin yet: no replica that signs has started")
)

// turn relays from where the streams stand until something is in the way.
func (r *Relay) turn(ctx context.Context) (progress bool, err error) {
	defer func() { r.note(ctx, err) }()
	if err := r.lead(ctx); err != nil {
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

// note ends a turn: another relay may take over, unless this one only stands by. A refusal is logged once.
func (r *Relay) note(ctx context.Context, err error) {
	r.config.Metrics.active.Set(0)
	if errors.Is(err, errStandby) {
		r.config.Metrics.relayed.Store(-1)
		return
	}
	r.disconnect(ctx)
	var refused *RefusedError
	if !errors.As(err, &refused) {
		return
	}
	r.config.Metrics.refused.Set(1)
	if text := refused.Error(); text != r.refused {
		r.refused = text
		r.config.Logger.ErrorContext(ctx, "The relay has stopped until an operator acts", slog.Any("reason", err))
	}
}

const lockSQL = `SELECT pg_try_advisory_lock(hashtextextended('novelgate relay', 0))`

// lead connects to the database and takes the lock. It fails with errStandby if another relay has it.
func (r *Relay) lead(ctx context.Context) (err error) {
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

// disconnect gives up the lock.
func (r *Relay) disconnect(ctx context.Context) {
	if r.db == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = r.db.Close(ctx) // there is nothing to lose
	r.db = nil
}

// active is one turn: the relay with its streams.
type active struct {
	*Relay
	origin         string
	main, personal *stream
	at             events.Position // of the last event that was read by step; zero: none
	erased         map[int64]bool  // log indexes whose message the personal stream has lost for good
}

// begin opens the streams of the current origin, compares them with the ledger, and repeats all erasures up to there.
func (r *Relay) begin(ctx context.Context) (*active, error) {
	sealed, err := r.sealed(ctx)
	if err != nil {
		return nil, err
	}
	if len(sealed.Origins) == 0 {
		return nil, errNoOrigin
	}
	t := &active{Relay: r, origin: sealed.Origin(), erased: map[int64]bool{}}
	if t.main, err = r.open(ctx, mainConfig, sealed); err != nil {
		return nil, err
	}
	if t.personal, err = r.open(ctx, personalConfig, sealed); err != nil {
		return nil, err
	}
	if err := t.compare(ctx, sealed); err != nil {
		return nil, err
	}
	r.refused = ""
	r.config.Metrics.refused.Set(0)
	r.config.Metrics.relayed.Store(int64(t.main.last)) //nolint:gosec // a log index and one
	return t, t.eraseUpTo(ctx, t.main.logIndex())
}

// sealed asks how far the ledger is.
func (r *Relay) sealed(ctx context.Context) (ledger.Sealed, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return ledger.ReadSealed(ctx, r.db)
}

// step publishes the next chunk.
func (t *active) step(ctx context.Context) (eventlog.Span, error) {
	sealed, err := t.sealed(ctx)
	if err != nil {
		return eventlog.Span{}, err
	}
	next := min(t.main.logIndex(), t.personal.logIndex())
	switch {
	case sealed.Origin() != t.origin:
		return eventlog.Span{}, errNewOrigin
	case sealed.Size < max(t.main.logIndex(), t.personal.logIndex()):
		return eventlog.Span{}, errSetBack
	case sealed.Size == next:
		return eventlog.Span{Settled: !sealed.Unsealed}, nil
	}
	list, err := t.next(ctx, next, sealed)
	if err != nil {
		return eventlog.Span{}, err
	}
	if err := t.publish(ctx, list); err != nil {
		return eventlog.Span{}, err
	}
	t.at = list[len(list)-1].row.Position
	end := next + int64(len(list))
	t.config.Metrics.published(len(list), end)
	return eventlog.Span{Read: len(list), Full: end < sealed.Size, Settled: !sealed.Unsealed}, nil
}

// next reads the next chunk. Near the end of the log it takes what the process has read already, if these are all
// sealed events behind the last chunk. Words in there may be erased since; the record of the erasure is still to come.
func (t *active) next(ctx context.Context, first int64, sealed ledger.Sealed) ([]message, error) {
	left := sealed.Size - first
	if t.config.Tail == nil || t.at == (events.Position{}) || left > chunk || t.main.last != t.personal.last {
		return t.read(ctx, first, int(min(chunk, left)), sealed.Size)
	}
	_, rows, err := t.config.Tail.ReadRows(ctx, t.at, sealed.Log)
	if err != nil {
		return nil, err
	}
	for len(rows) > 0 && rows[len(rows)-1].Position.Compare(sealed.Position) > 0 {
		rows = rows[:len(rows)-1]
	}
	if int64(len(rows)) != left {
		return t.read(ctx, first, int(left), sealed.Size)
	}
	list := make([]message, len(rows))
	for i := range rows {
		if err := list[i].set(&rows[i], first+int64(i)); err != nil {
			return nil, err
		}
	}
	return list, t.address(ctx, list)
}

// publish stores events in both streams. Personal parts come first, so that whoever reads the main stream finds them;
// erasures come in front of the event that records them.
func (t *active) publish(ctx context.Context, list []message) error {
	if err := t.personal.publish(ctx, t.js, list, (*message).personalPart); err != nil {
		return err
	}
	for i := range list {
		if list[i].erases() {
			if err := t.eraseFor(ctx, &list[i]); err != nil {
				return err
			}
		}
	}
	return t.main.publish(ctx, t.js, list, (*message).mainPart)
}
