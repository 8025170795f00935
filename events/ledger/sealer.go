package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
)

// Defaults of SealerConfig.
const (
	DefaultLimit = 8192
	DefaultPace  = 100 * time.Millisecond
)

// Waiting of a sealer.
const (
	pacePerEvent = 2 * time.Millisecond // of a batch that was not full
	firstRepeat  = time.Millisecond     // after a read that found nothing, …
	lastRepeat   = time.Second          // … doubling up to this
	mostDeaf     = 50 * time.Millisecond
	standbyWait  = 250 * time.Millisecond
	firstRetry   = 50 * time.Millisecond // after a failure, …
	lastRetry    = 5 * time.Second       // … doubling up to this
)

// SealerConfig says how a Sealer works.
type SealerConfig struct {
	// Pool has two connections to spare, on which statements are planned as database.Pools.Ledger does. Required.
	Pool *pgxpool.Pool
	// Wake tells of appends. Without one the log is polled once a second.
	Wake *eventlog.Wake
	// Limit is the most events in one seal. Default: DefaultLimit.
	Limit int
	// Pace is how long at most the next seal is put off after one that was not full, so that under load few large seals
	// are made rather than many small ones. A seal of n events puts it off by n × 2 ms. Default: DefaultPace.
	Pace time.Duration
	// Metrics count. Default: new ones that nobody sees.
	Metrics *Metrics
	// Clock times the seals. Default: none are timed.
	Clock func() time.Time
	// Logger gets what goes wrong. Default: slog.Default.
	Logger *slog.Logger
}

// Sealer gives the settled events of the log their places in the ledger. Any number may run on one database: one seals,
// the others notice, look after it every 250 ms or so, and step in when it stands still although there are events.
type Sealer struct {
	config SealerConfig
	store  *Store
}

// NewSealer returns a sealer that does nothing before Run.
func NewSealer(config SealerConfig) (*Sealer, error) {
	if config.Pool == nil {
		return nil, errors.New("create sealer: Pool is nil")
	}
	if config.Limit <= 0 {
		config.Limit = DefaultLimit
	}
	if config.Pace <= 0 {
		config.Pace = DefaultPace
	}
	if config.Metrics == nil {
		config.Metrics = NewMetrics()
	}
	if config.Clock == nil {
		config.Clock = func() time.Time { return time.Time{} }
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	return &Sealer{config: config, store: NewStore(config.Pool)}, nil
}

// Run seals until ctx ends. What goes wrong is logged and tried again; what will not mend by itself is also on record
// in Status.Error.
func (s *Sealer) Run(ctx context.Context) {
	signals, unregister := s.config.Wake.Signals()
	defer unregister()
	for failures := 0; ctx.Err() == nil; {
		sealed, err := s.follow(ctx, signals)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, errLost):
			failures = 0
			s.standBy(ctx)
		default:
			if sealed {
				failures = 0
			}
			s.report(ctx, failures, err)
			eventlog.Sleep(ctx, min(firstRetry<<min(failures, 10), lastRetry))
			failures++
		}
	}
}

// follow seals from where the ledger stands until something is in the way. sealed says whether it got anything done.
// One goroutine reads and hashes ahead while another one stores.
func (s *Sealer) follow(ctx context.Context, signals <-chan struct{}) (sealed bool, err error) {
	at, err := readState(ctx, s.config.Pool)
	if err != nil {
		return false, err
	}
	if err := s.wantInLog(ctx, at); err != nil {
		return false, err
	}
	t, err := s.store.loadTree(ctx, at)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batches, unread := make(chan *batch, 1), make(chan error, 1)
	go func() {
		defer close(batches)
		unread <- s.read(ctx, t, at, signals, batches)
	}()
	// What was read before something is in the way of reading is sealed all the same.
	for b := range batches {
		started := s.config.Clock()
		if err = seal(ctx, s.config.Pool, b); err != nil {
			cancel()
			break
		}
		sealed = true
		s.config.Metrics.sealed(b, started, s.config.Clock())
	}
	if end := <-unread; err == nil {
		err = end
	}
	return sealed, err
}

// ErrDiverged is returned for a ledger whose last entry is not that of an event in the log: the log was set back,
// or is another one.
var ErrDiverged = errors.New("the log does not have the last event that was sealed")

// wantInLog fails with ErrDiverged unless the log has the event of the last entry: on any other one nothing is to
// be built.
func (s *Sealer) wantInLog(ctx context.Context, at state) error {
	if at.size == 0 {
		return nil
	}
	last := at.size - 1
	inBundle := int(last % TileWidth)
	bundles, err := s.store.Bundles(ctx, last/TileWidth, inBundle+1)
	if err != nil {
		return err
	}
	entries, err := SplitBundle(bundles[0], inBundle+1)
	if err != nil {
		return err
	}
	before := events.Position{TransactionID: at.position.TransactionID, Ordinal: at.position.Ordinal - 1}
	for row, err := range eventlog.RowsAfter(ctx, s.config.Pool, before, 1) {
		if err != nil {
			return fmt.Errorf("read log after %s: %w", before, err)
		}
		if row.Position == at.position && bytes.HasPrefix(entries[inBundle], appendLasting(nil, row)) {
			return nil
		}
	}
	return fmt.Errorf("%w: entry %d, at %s", ErrDiverged, last, at.position)
}

// read makes batches of what the log has behind a state, as it grows.
func (s *Sealer) read(ctx context.Context, t *tree, at state, signals <-chan struct{}, batches chan<- *batch) error {
	var repeat, deaf time.Duration
	for {
		b, err := s.nextBatch(ctx, t, at)
		if err != nil {
			return err
		}
		if b.events > 0 {
			select {
			case batches <- b:
			case <-ctx.Done():
				return ctx.Err()
			}
			at, repeat, deaf = b.end, 0, 0
		}
		switch {
		case b.full:
			continue
		case b.events > 0:
			eventlog.Sleep(ctx, min(s.config.Pace, time.Duration(b.events)*pacePerEvent))
			continue
		}
		// While a transaction runs that is older than what was appended, every append sends its signal and none is seen.
		eventlog.Sleep(ctx, deaf)
		repeat, deaf = min(max(firstRepeat, 2*repeat), lastRepeat), min(max(firstRepeat, 2*deaf), mostDeaf)
		timer := time.NewTimer(repeat)
		select {
		case <-signals:
			repeat = 0
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// nextBatch makes a batch of what lies behind a state, read over one connection to its log.
func (s *Sealer) nextBatch(ctx context.Context, t *tree, at state) (*batch, error) {
	conn, err := s.config.Pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquire connection: %w", err)
	}
	defer conn.Release()
	identity, err := eventlog.Identify(ctx, conn)
	if err != nil {
		return nil, err
	}
	if identity != at.log {
		return nil, eventlog.ErrOtherLog
	}
	return nextBatch(ctx, conn, t, at, s.config.Limit)
}

// standBy returns once the ledger stands still.
func (s *Sealer) standBy(ctx context.Context) {
	last := int64(-1)
	for ctx.Err() == nil {
		at, err := readState(ctx, s.config.Pool)
		if err != nil || at.size == last {
			return // follow will say what is wrong
		}
		last = at.size
		// Standbys that wake together would all step in together.
		eventlog.Sleep(ctx, standbyWait+rand.N(standbyWait/4)) //nolint:gosec // not a secret
	}
}

// report logs a failure, and puts one on record that will not mend by itself.
func (s *Sealer) report(ctx context.Context, failures int, err error) {
	var pgErr *pgconn.PgError
	const integrityViolation = "23"
	lasting := errors.Is(err, ErrGap) || errors.Is(err, ErrDamaged) || errors.Is(err, ErrDiverged) ||
		errors.Is(err, ErrEntryTooLarge) || errors.Is(err, errLostRows) ||
		errors.As(err, &pgErr) && pgErr.Code[:2] == integrityViolation
	level := slog.LevelDebug
	const transient = 3 // failures in a row before one is logged as a warning
	switch {
	case lasting:
		level = slog.LevelError
	case failures >= transient:
		level = slog.LevelWarn
	}
	s.config.Logger.Log(ctx, level, "Sealing failed; trying again", slog.Int("failures", failures+1),
		slog.Any("error", err))
	if !lasting {
		return
	}
	if err := s.noteError(ctx, err); err != nil {
		s.config.Logger.WarnContext(ctx, "Why sealing failed could not be recorded", slog.Any("error", err))
	}
}

func (s *Sealer) noteError(ctx context.Context, cause error) error {
	at, err := readState(ctx, s.config.Pool)
	if err != nil {
		return err
	}
	if _, err := s.config.Pool.Exec(ctx, noteErrorSQL, eventlog.ErrorText(cause), at.size); err != nil {
		return fmt.Errorf("note error: %w", err)
	}
	return nil
}
