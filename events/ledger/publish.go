package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/eventlog"
)

// ErrPublished is returned for a target that has what is not of this ledger. It is evidence: nothing in it is replaced,
// and nothing added.
var ErrPublished = errors.New("something else was published there")

// Target is a place outside of the database where checkpoints are kept.
type Target interface {
	// Last is the size of the last checkpoint of an origin that the target has taken; -1 for none. It may fail with
	// ErrPublished.
	Last(ctx context.Context, origin string) (int64, error)
	// Take keeps a checkpoint. It may come a second time. It may fail with ErrPublished.
	Take(ctx context.Context, c Checkpoint) error
	// String names the target in logs.
	String() string
}

// PublisherConfig says how a Publisher works.
type PublisherConfig struct {
	// Pool has a connection to spare. Required.
	Pool *pgxpool.Pool
	// Origin whose checkpoints are published. Required.
	Origin string
	// Target takes them. Required.
	Target Target
	// Interval between looks for new checkpoints. Default: DefaultInterval.
	Interval time.Duration
	// Metrics say whether something else was published there. Default: new ones that nobody sees.
	Metrics *Metrics
	// Logger gets what goes wrong. Default: slog.Default.
	Logger *slog.Logger
}

// Publisher hands every checkpoint to a target, in their order and at least once; also those that were signed while
// neither of them ran.
type Publisher struct {
	config PublisherConfig
	store  *Store
}

// NewPublisher returns a publisher that does nothing before Run.
func NewPublisher(config PublisherConfig) (*Publisher, error) {
	if config.Pool == nil || config.Origin == "" || config.Target == nil {
		return nil, errors.New("create publisher: Pool, Origin or Target is missing")
	}
	if config.Interval <= 0 {
		config.Interval = DefaultInterval
	}
	if config.Metrics == nil {
		config.Metrics = NewMetrics()
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	config.Metrics.refuseToPublish(config.Target.String(), false)
	return &Publisher{config: config, store: NewStore(config.Pool)}, nil
}

// Run publishes until ctx ends. What goes wrong is logged and tried again, at longer and longer intervals of up to a
// minute.
func (p *Publisher) Run(ctx context.Context) {
	const longest = time.Minute
	for failures := 0; ctx.Err() == nil; {
		err := p.Publish(ctx)
		wait := p.config.Interval
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			failures = 0
		default:
			wait = min(p.config.Interval<<min(failures, 10), longest)
			failures++
			p.report(ctx, wait, err)
		}
		if refused := errors.Is(err, ErrPublished); refused || err == nil { // else nobody has looked
			p.config.Metrics.refuseToPublish(p.config.Target.String(), refused)
		}
		eventlog.Sleep(ctx, wait)
	}
}

// report logs a failure; as an error if it will not mend by itself.
func (p *Publisher) report(ctx context.Context, wait time.Duration, err error) {
	logger := p.config.Logger.With(slog.String("target", p.config.Target.String()), slog.Duration("wait", wait),
		slog.Any("error", err))
	if errors.Is(err, ErrPublished) {
		logger.ErrorContext(ctx, "Checkpoints are not published there any more: keep what is there as it is, it is evidence")
		return
	}
	logger.WarnContext(ctx, "Publishing a checkpoint failed; trying again")
}

// Publish hands over what the target does not have yet.
func (p *Publisher) Publish(ctx context.Context) error {
	last, err := p.config.Target.Last(ctx, p.config.Origin)
	if err != nil {
		return fmt.Errorf("find what was published: %w", err)
	}
	const page = 100
	for {
		list, err := p.store.since(ctx, p.config.Origin, last, page)
		if err != nil {
			return err
		}
		for _, c := range list {
			if err := p.config.Target.Take(ctx, c); err != nil {
				return fmt.Errorf("publish checkpoint of %d entries: %w", c.Tree.N, err)
			}
			last = c.Tree.N
		}
		if len(list) < page {
			return nil
		}
	}
}
