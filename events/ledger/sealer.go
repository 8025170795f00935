package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events"
	"novelgate/events/eventlog"
)

// Defaults of SealerConfig.
const (
	defaultLimit = 8192
	DefaultPace  = 100 * time.Millisecond
)

// SealerConfig configures a Sealer.
type SealerConfig struct {
	// Pool must have two connections for the sealer, with the planner settings of database.Pools.General. Required.
	Pool *pgxpool.Pool
	// Tail reads the log; projections may share it. Default: a new one.
	Tail *eventlog.Tail
	// Wake signals appends. Default: the log is read once a second.
	Wake *eventlog.Wake
	// Limit is the maximum number of events in one seal while the sealer is far behind; fewer when they are large, see
	// eventlog.FetchSize. Default: 8192.
	Limit int
	// Pace is the longest pause after a read, see eventlog.Follow.Pace. Default: DefaultPace.
	Pace time.Duration
	// Metrics count seals. Default: new, unregistered ones.
	Metrics *Metrics
	// Clock measures the time of seals. Default: not measured.
	Clock func() time.Time
	// Logger gets errors. Default: slog.Default.
	Logger *slog.Logger
}

// Sealer assigns log indexes to the settled events of the log. Any number may run on one database: one seals, the
// others stand by; see eventlog.Follow.
type Sealer struct {
	config SealerConfig
	store  *Store
	follow eventlog.Follow
}

// NewSealer returns a sealer; start it with Run.
func NewSealer(config SealerConfig) *Sealer {
	config.Limit = cmp.Or(config.Limit, defaultLimit)
	config.Pace = cmp.Or(config.Pace, DefaultPace)
	config.Metrics = cmp.Or(config.Metrics, NewMetrics())
	config.Logger = cmp.Or(config.Logger, slog.Default())
	if config.Tail == nil {
		config.Tail = eventlog.NewTail(config.Pool.Config().ConnConfig, config.Limit)
	}
	if config.Clock == nil {
		config.Clock = func() time.Time { return time.Time{} }
	}
	position := func(ctx context.Context) (events.Position, error) {
		at, err := readState(ctx, config.Pool)
		return at.position, err
	}
	return &Sealer{
		config: config, store: NewStore(config.Pool),
		follow: eventlog.Follow{
			Wake: config.Wake, Pace: config.Pace, Position: position, Logger: config.Logger.With(slog.String("of", "ledger")),
		},
	}
}

// Run seals until ctx ends. It logs errors and retries. Errors that need an operator are also in Status.Error.
func (s *Sealer) Run(ctx context.Context) {
	s.follow.Run(ctx, s.turn)
	s.config.Tail.Close(context.WithoutCancel(ctx))
}

// turn seals from the current state until an error. One goroutine reads and hashes ahead while another one stores.
func (s *Sealer) turn(ctx context.Context) (sealed bool, err error) {
	defer func() { s.reportError(ctx, err) }()
	at, err := readState(ctx, s.config.Pool)
	if err != nil {
		return false, err
	}
	if err := s.checkLastLeaf(ctx, at); err != nil {
		return false, err
	}
	t, err := s.store.loadTree(ctx, at)
	if err != nil {
		return false, err
	}
	working, cancel := context.WithCancel(ctx)
	defer cancel()
	batches, readEnded := make(chan *batch, 1), make(chan error, 1)
	go func() {
		defer close(batches)
		readEnded <- s.read(working, t, at, batches)
	}()
	// Batches that were read before an error of reading are sealed, too.
	for b := range batches {
		started := s.config.Clock()
		if err = seal(working, s.config.Pool, b); err != nil {
			cancel()
			break
		}
		sealed = true
		s.config.Metrics.sealed(b, started, s.config.Clock())
	}
	if readErr := <-readEnded; err == nil {
		err = readErr
	}
	return sealed, err
}

// ErrDiverged is returned for a ledger whose last leaf is not an event of the log: the log was changed or set back, or
// is another one.
var ErrDiverged = errors.New("the log does not have the last event that was sealed")

// checkLastLeaf fails with ErrDiverged unless the log has the event of the last leaf, after which sealing continues.
func (s *Sealer) checkLastLeaf(ctx context.Context, at state) error {
	if at.size == 0 {
		return nil
	}
	last := at.size - 1
	tile, err := s.store.Tile(ctx,
		tlog.Tile{H: TileHeight, L: 0, N: last / TileWidth, W: int(last%TileWidth) + 1})
	if err != nil {
		return err
	}
	leaf := tlog.Hash(tile[len(tile)-tlog.HashSize:])
	before := events.Position{TransactionID: at.position.TransactionID, Ordinal: at.position.Ordinal - 1}
	found := false
	fetch := eventlog.NewFetchSize(1)
	_, err = eventlog.ReadRows(ctx, s.config.Pool, before, at.log, fetch, func(row *eventlog.Row) error {
		entry, err := AppendEntry(nil, row)
		found = err == nil && row.Position == at.position && tlog.RecordHash(entry) == leaf
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: log index %d, at %s", ErrDiverged, last, at.position)
	}
	return err
}

// read makes batches of the events after a state, and follows the log.
func (s *Sealer) read(ctx context.Context, t *tree, at state, batches chan<- *batch) error {
	fetch := eventlog.NewFetchSize(s.config.Limit)
	// Reads far behind bypass the tail, so that other followers do not wait.
	behind := false
	return s.follow.Each(ctx, func(ctx context.Context) (span eventlog.Span, err error) {
		b := &batch{start: at, end: at}
		add := func(row *eventlog.Row) error { return b.add(t, row) }
		if behind {
			span, err = eventlog.ReadRows(ctx, s.config.Pool, at.position, at.log, fetch, add)
		} else {
			span, err = s.readTail(ctx, at, add)
		}
		if err != nil || b.events == 0 {
			return span, err
		}
		behind = span.Full
		if err := b.close(ctx, s.config.Pool, t, span.Full); err != nil {
			return span, err
		}
		at = b.end
		select {
		case batches <- b:
			return span, nil
		case <-ctx.Done():
			return span, ctx.Err()
		}
	})
}

// readTail reads the rows that the followers of this process share.
func (s *Sealer) readTail(ctx context.Context, at state, add func(*eventlog.Row) error) (eventlog.Span, error) {
	span, rows, err := s.config.Tail.ReadRows(ctx, at.position, at.log)
	for i := range rows {
		if err = add(&rows[i]); err != nil {
			break
		}
	}
	return span, err
}

// reportError logs an error that needs an operator, and records it in the state. It ignores all other errors.
func (s *Sealer) reportError(ctx context.Context, err error) {
	var pgErr *pgconn.PgError
	const integrityViolation = "23" // class of SQLSTATE
	is := func(lasting error) bool { return errors.Is(err, lasting) }
	if !slices.ContainsFunc([]error{ErrGap, ErrDamaged, ErrDiverged, ErrEntryTooLarge, errLostRows}, is) &&
		(!errors.As(err, &pgErr) || pgErr.Code[:2] != integrityViolation) {
		return
	}
	s.config.Logger.ErrorContext(ctx, "The ledger cannot be sealed", slog.Any("error", err))
	if err := s.recordError(ctx, err); err != nil {
		s.config.Logger.WarnContext(ctx, "The error of sealing could not be recorded", slog.Any("error", err))
	}
}

func (s *Sealer) recordError(ctx context.Context, cause error) error {
	at, err := readState(ctx, s.config.Pool)
	if err != nil {
		return err
	}
	if _, err := s.config.Pool.Exec(ctx, recordErrorSQL, eventlog.ErrorText(cause), at.size); err != nil {
		return fmt.Errorf("record error: %w", err)
	}
	return nil
}
