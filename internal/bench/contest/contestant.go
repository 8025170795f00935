package contest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/bench/load"
)

// Contestant is a running endpoint.
type Contestant struct {
	Name   string
	OpsURL string // where the service serves profiles; "" for others

	child    *child
	host     string
	apiKey   string
	database *pgx.Conn
	// caughtUpSQL returns whether nothing is left to do after the answers; "" when there never is.
	caughtUpSQL string
	// storedSQL returns how many comments are stored.
	storedSQL string
	audit     audit
}

// meet connects to the database of a contestant and prepares the novels.
func (a *Arena) meet(ctx context.Context, c *Contestant, databaseURL string) error {
	var err error
	if c.database, err = pgx.Connect(ctx, databaseURL); err != nil {
		return fmt.Errorf("connect to the database of %s: %w", c.Name, err)
	}
	config := a.load(c)
	if err := load.Prepare(ctx, config); err != nil {
		return fmt.Errorf("prepare %s: %w", c.Name, err)
	}
	return nil
}

// load is the configuration of a load without what is different in each.
func (a *Arena) load(c *Contestant) load.Config {
	return load.Config{
		Host: c.host, APIKey: c.apiKey, Titles: a.config.Titles, Replies: a.config.Replies, Now: a.config.Now,
	}
}

// Stop ends the process, not its database.
func (c *Contestant) Stop(ctx context.Context) error {
	if c.database != nil {
		_ = c.database.Close(ctx) // of no more use
	}
	if err := c.child.stop(); err != nil {
		return fmt.Errorf("stop %s: %w", c.Name, err)
	}
	return nil
}

// settlePause is the time between two looks at whether a contestant has caught up.
const settlePause = 10 * time.Millisecond

// settle returns when the contestant has finished what it does after its answers, and how long that took: 0 for one
// that does nothing.
func (c *Contestant) settle(ctx context.Context, now func() time.Time) (time.Duration, error) {
	if c.caughtUpSQL == "" {
		return 0, nil
	}
	for start := now(); ; {
		var done bool
		if err := c.database.QueryRow(ctx, c.caughtUpSQL).Scan(&done); err != nil {
			return 0, fmt.Errorf("look whether %s has caught up: %w", c.Name, err)
		}
		if done {
			return now().Sub(start), nil
		}
		select {
		case <-time.After(settlePause):
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for %s to catch up: %w", c.Name, ctx.Err())
		}
	}
}

func hostOf(url string) string { return strings.TrimPrefix(strings.TrimSpace(url), "http://") }
