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

// Sealer grows the tree: leaf i is the event with log index i. Any number may run on one database: one seals, the
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
	store := NewStore(config.Pool)
	position := func(ctx context.Context) (events.Position, error) {
		at, err := store.Tree(ctx)
		return events.Position(at.N), err
	}
	return &Sealer{
		config: config, store: store,
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
	at, err := s.store.Tree(ctx)
	if err != nil {
		return false, err
	}
	from, err := s.checkLastLeaf(ctx, at)
	if err != nil {
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
		readEnded <- s.read(working, t, from, batches)
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

// ErrDiverged is returned for a ledger whose last leaf is not an event of the log: the log was changed.
var ErrDiverged = errors.New("the log does not have the last event that was sealed")

// checkLastLeaf fails with ErrDiverged unless the log has the event of the last leaf. It returns the mark after it,
// where sealing continues.
func (s *Sealer) checkLastLeaf(ctx context.Context, at tlog.Tree) (eventlog.Mark, error) {
	if at.N == 0 {
		return eventlog.Mark{}, nil
	}
	last := at.N - 1
	tile, err := s.store.Tile(ctx,
		tlog.Tile{H: TileHeight, L: 0, N: last / TileWidth, W: int(last%TileWidth) + 1})
	if err != nil {
		return eventlog.Mark{}, err
	}
	leaf := tlog.Hash(tile[len(tile)-tlog.HashSize:])
	found := false
	span, err := eventlog.ReadRows(ctx, s.config.Pool, eventlog.Mark{Position: events.Position(last)},
		eventlog.NewFetchSize(1), func(row *eventlog.Row) error {
			entry, err := AppendEntry(nil, row)
			found = err == nil && tlog.RecordHash(entry) == leaf
			return nil
		})
	if err == nil && !found {
		err = fmt.Errorf("%w: log index %d", ErrDiverged, last)
	}
	return span.End, err
}

// read makes batches of the events from a mark on, and follows the log. t is the tree of the events before it.
func (s *Sealer) read(ctx context.Context, t *tree, from eventlog.Mark, batches chan<- *batch) error {
	fetch := eventlog.NewFetchSize(s.config.Limit)
	// Reads far behind bypass the tail, so that other followers do not wait.
	behind := false
	var entry []byte // buffer
	return s.follow.Each(ctx, func(ctx context.Context) (eventlog.Span, error) {
		b := &batch{start: t.Tree()}
		add := func(row *eventlog.Row) (err error) {
			if t.Size() == b.start.N {
				b.oldest = row.RecordedAt
			}
			if entry, err = AppendEntry(entry[:0], row); err != nil {
				return fmt.Errorf("event %d: %w", row.LogIndex, err)
			}
			return t.add(tlog.RecordHash(entry))
		}
		var err error
		if behind {
			b.read, err = eventlog.ReadRows(ctx, s.config.Pool, from, fetch, add)
		} else {
			b.read, err = s.readTail(ctx, from, add)
		}
		if err != nil || b.read.Read == 0 {
			return b.read, err
		}
		behind, from = b.read.Full, b.read.End
		b.pieces, b.end = t.take(), t.Tree()
		select {
		case batches <- b:
			return b.read, nil
		case <-ctx.Done():
			return b.read, ctx.Err()
		}
	})
}

// readTail reads the rows that the followers of this process share.
func (s *Sealer) readTail(
	ctx context.Context, from eventlog.Mark, add func(*eventlog.Row) error,
) (eventlog.Span, error) {
	span, rows, err := s.config.Tail.ReadRows(ctx, from)
	for i := range rows {
		if err = add(&rows[i]); err != nil {
			break
		}
	}
	return span, err
}

// recordErrorSQL records an error of sealing. The next seal clears it.
const recordErrorSQL = `UPDATE ledger_state SET error = $1, error_at = statement_timestamp()`

// reportError logs an error that needs an operator, and records it in the state. It ignores all other errors.
func (s *Sealer) reportError(ctx context.Context, err error) {
	var pgErr *pgconn.PgError
	const integrityViolation = "23" // class of SQLSTATE
	is := func(lasting error) bool { return errors.Is(err, lasting) }
	if !slices.ContainsFunc([]error{eventlog.ErrGap, ErrDamaged, ErrDiverged, ErrEntryTooLarge, errLostRows}, is) &&
		(!errors.As(err, &pgErr) || pgErr.Code[:2] != integrityViolation) {
		return
	}
	s.config.Logger.ErrorContext(ctx, "The ledger cannot be sealed", slog.Any("error", err))
	if _, err := s.config.Pool.Exec(ctx, recordErrorSQL, eventlog.ErrorText(err)); err != nil {
		s.config.Logger.WarnContext(ctx, "The error of sealing could not be recorded", slog.Any("error", err))
	}
}
