package rebuild

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/semaphore"

	"novelgate/events/eventlog"
	"novelgate/projections"
)

// How long Upgrade waits before it looks again.
const (
	underWayWait      = 5 * time.Second // while another process rebuilds
	DefaultFailedWait = 30 * time.Second
	watchWait         = 5 * time.Second // until Watch looks again
)

const builtSQL = `SELECT generation, state FROM projections WHERE name = $1`

// UpgradeConfig says what Upgrade looks after.
type UpgradeConfig struct {
	// Pool is configured to connect to the database. Required.
	Pool *pgxpool.Pool
	// Extra has the Connections of a rebuild, which waits for them. Default: it does not wait.
	Extra *semaphore.Weighted
	// Connections is how many a rebuild opens; see Config. Default: as there.
	Connections int
	// Projections are those of this program that follow the log. Default: projections.All().
	Projections []projections.Projection
	// Workers load the log. Default: 1, which leaves the processors to those who wait for an answer.
	Workers int
	// Now is the clock by which rebuilds yield to others while they append. Default: they do not yield.
	Now func() time.Time
	// FailedWait is how long to wait after a rebuild that failed. Default: DefaultFailedWait.
	FailedWait time.Duration
	// Logger gets beginning and end of each rebuild. Default: slog.Default.
	Logger *slog.Logger
}

// Watch upgrades until ctx ends: a projection may be found to have diverged from the log at any time.
func Watch(ctx context.Context, config UpgradeConfig) {
	for Upgrade(ctx, config); eventlog.Sleep(ctx, watchWait); {
		Upgrade(ctx, config)
	}
}

// Upgrade rebuilds, one after another, the projections whose live tables an earlier generation of the code has built,
// and those that have diverged from the log. It returns when there are none, or when ctx ends. A projection that cannot
// be rebuilt does not hold up the others; it is tried again with all that are left. One replica rebuilds; the others
// wait until it has finished or stopped.
//
// Upgrade does not touch tables of a later generation: this program is the older one.
func Upgrade(ctx context.Context, config UpgradeConfig) {
	if config.Projections == nil {
		config.Projections = projections.All()
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	if config.FailedWait <= 0 {
		config.FailedWait = DefaultFailedWait
	}
	for left := config.Projections; ; {
		var wait time.Duration
		left, wait = config.upgradeEach(ctx, left)
		if len(left) == 0 || !eventlog.Sleep(ctx, wait) {
			return
		}
	}
}

// upgradeEach tries each projection once. It returns those that are left, and how soon they are worth another try: one
// that failed is not tried again sooner because another one is under way elsewhere.
func (c *UpgradeConfig) upgradeEach(
	ctx context.Context, all []projections.Projection,
) (left []projections.Projection, wait time.Duration) {
	wait = underWayWait
	for _, projection := range all {
		err := c.upgrade(ctx, projection)
		if ctx.Err() != nil {
			return nil, 0
		}
		if err == nil {
			continue
		}
		left = append(left, projection)
		if !errors.Is(err, ErrUnderWay) {
			wait = c.FailedWait
		}
	}
	return left, wait
}

// upgrade rebuilds a projection if that is due. It logs what becomes of it.
func (c *UpgradeConfig) upgrade(ctx context.Context, projection projections.Projection) error {
	logger := c.Logger.With(slog.String("projection", projection.Name()), slog.Int("generation", projection.Generation()))
	reason, err := c.isDue(ctx, projection)
	if err == nil && reason == "" {
		return nil
	}
	if err == nil {
		logger.InfoContext(ctx, "Rebuilding the tables of a projection while the old ones are in use",
			slog.String("reason", reason))
		var result Result
		result, err = c.run(ctx, projection)
		if err == nil {
			logger.InfoContext(ctx, "A projection was rebuilt", slog.Int("events", result.Events))
			return nil
		}
	}
	if ctx.Err() == nil && !errors.Is(err, ErrUnderWay) {
		logger.ErrorContext(ctx, "A projection could not be rebuilt; trying again. Its old tables are still in use",
			slog.Any("error", err))
	}
	return err
}

// run rebuilds a projection when the connections for that are free.
func (c *UpgradeConfig) run(ctx context.Context, projection projections.Projection) (Result, error) {
	if c.Extra != nil {
		if err := c.Extra.Acquire(ctx, int64(c.Connections)); err != nil {
			return Result{}, fmt.Errorf("wait for connections: %w", err)
		}
		defer c.Extra.Release(int64(c.Connections))
	}
	return Run(ctx, Config{
		Pool: c.Pool, Connections: c.Connections, Projection: projection, Workers: max(c.Workers, 1), Now: c.Now,
		Logger: c.Logger,
	})
}

// isDue returns why the live tables are due for a rebuild, "" if they are not.
func (c *UpgradeConfig) isDue(ctx context.Context, projection projections.Projection) (string, error) {
	var live int
	var state string
	err := c.Pool.QueryRow(ctx, builtSQL, projection.Name()).Scan(&live, &state)
	switch {
	case errors.Is(err, pgx.ErrNoRows): // it has never run, so nothing is old
	case err != nil:
		return "", fmt.Errorf("read generation: %w", err)
	case live < projection.Generation():
		return "its code has changed", nil
	case live == projection.Generation() && state == projections.Diverged:
		return "it has diverged from the log", nil
	}
	return "", nil
}
