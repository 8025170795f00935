package rebuild

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/eventlog"
	"novelgate/projections"
)

// Waits of Upgrade.
const (
	underWayWait      = 5 * time.Second // while another process rebuilds
	defaultFailedWait = 30 * time.Second
)

const generationSQL = `SELECT generation FROM projections WHERE name = $1`

// UpgradeConfig configures Upgrade.
type UpgradeConfig struct {
	// Pool reads the generations, and has the configuration of the connections that a rebuild opens. Required.
	Pool *pgxpool.Pool
	// Projections are the asynchronous projections to upgrade. Default: projections.All().
	Projections []projections.Projection
	// Now is Config.Now.
	Now func() time.Time
	// FailedWait is the wait after a failed rebuild. Default: 30 s.
	FailedWait time.Duration
	// Logger gets start and end of each rebuild. Default: slog.Default.
	Logger *slog.Logger
}

// Upgrade rebuilds, one after another, the projections with live tables of an earlier generation. It returns when there
// are none, or when ctx ends. A failed rebuild does not stop the others; it is tried again with the remaining ones. One
// replica rebuilds; the others wait until it has finished or stopped.
//
// Upgrade does not touch tables of a later generation: then this program is the older one.
func Upgrade(ctx context.Context, config UpgradeConfig) {
	if config.Projections == nil {
		config.Projections = projections.All()
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	if config.FailedWait <= 0 {
		config.FailedWait = defaultFailedWait
	}
	for left := config.Projections; ; {
		var wait time.Duration
		left, wait = config.upgradeEach(ctx, left)
		if len(left) == 0 || !eventlog.Sleep(ctx, wait) {
			return
		}
	}
}

// upgradeEach tries each projection once. It returns the remaining ones and the wait before the next try: FailedWait if
// a rebuild failed, otherwise underWayWait.
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

// upgrade rebuilds a projection if it is due, and logs the result.
func (c *UpgradeConfig) upgrade(ctx context.Context, projection projections.Projection) error {
	logger := c.Logger.With(slog.String("projection", projection.Name()), slog.Int("generation", projection.Generation()))
	isDue, err := c.isDue(ctx, projection)
	if err != nil && ctx.Err() == nil {
		logger.WarnContext(ctx, "It is not known whether a projection must be rebuilt; trying again", slog.Any("error", err))
	}
	if err != nil || !isDue {
		return err
	}
	logger.InfoContext(ctx, "The code of a projection has changed; rebuilding its tables while the old ones are in use")
	result, err := Run(ctx, Config{
		Pool: c.Pool, Projection: projection, Now: c.Now, Logger: c.Logger,
		isDue: func(ctx context.Context) (bool, error) { return c.isDue(ctx, projection) },
	})
	switch {
	case err == nil:
		logger.InfoContext(ctx, "A projection was rebuilt", slog.Int("events", result.Events))
	case errors.Is(err, errNotDue):
		logger.InfoContext(ctx, "Another process has rebuilt the projection")
		return nil
	case ctx.Err() == nil && !errors.Is(err, ErrUnderWay):
		logger.ErrorContext(ctx, "A projection could not be rebuilt; trying again. Its old tables are still in use",
			slog.Any("error", err))
	}
	return err
}

// isDue reports whether the live tables are of an earlier generation.
func (c *UpgradeConfig) isDue(ctx context.Context, projection projections.Projection) (bool, error) {
	var live int
	err := c.Pool.QueryRow(ctx, generationSQL, projection.Name()).Scan(&live)
	if errors.Is(err, pgx.ErrNoRows) { // the projection has never run
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read generation: %w", err)
	}
	return live < projection.Generation(), nil
}
