package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"novelgate/commands/committer"
	"novelgate/internal/database"
	"novelgate/internal/pgserver"
	"novelgate/internal/sandbox"
)

type serveCommand struct {
	DatabaseFlags

	Listen    string    `env:"NOVELGATE_LISTEN" default:"127.0.0.1:8080" placeholder:"ADDRESS"`
	OpsListen string    `env:"NOVELGATE_OPS_LISTEN" default:"127.0.0.1:8081" placeholder:"ADDRESS"`
	PublicURL string    `env:"NOVELGATE_PUBLIC_URL" placeholder:"URL"`
	Site      siteFlags `embed:""`

	RequestTimeout  time.Duration `env:"NOVELGATE_REQUEST_TIMEOUT" default:"1900ms"`
	Lanes           int           `env:"NOVELGATE_LANES" default:"0" placeholder:"N"`
	Readers         int           `env:"NOVELGATE_READERS" default:"32" placeholder:"N"`
	Connections     int           `env:"NOVELGATE_CONNECTIONS" default:"2000" placeholder:"N"`
	Sandboxes       int           `env:"NOVELGATE_SANDBOXES" default:"3" placeholder:"N"`
	ImportRetention time.Duration `env:"NOVELGATE_IMPORT_RETENTION" default:"168h"`
	Webhooks        webhookFlags  `embed:"" prefix:"webhook-" envprefix:"NOVELGATE_WEBHOOK_"`

	DatabaseConnections int `env:"NOVELGATE_DATABASE_CONNECTIONS" default:"0" placeholder:"N"`

	AllowUnsafeDurability bool         `env:"NOVELGATE_ALLOW_UNSAFE_DURABILITY"`
	PauseProjections      bool         `env:"NOVELGATE_PAUSE_PROJECTIONS"`
	PauseLedger           bool         `env:"NOVELGATE_PAUSE_LEDGER"`
	Standbys              standbyFlags `embed:""`

	Ledger     LedgerFlags `embed:"" prefix:"ledger-" envprefix:"NOVELGATE_LEDGER_"`
	Relay      RelayFlags  `embed:""`
	Mirror     mirrorFlags `embed:""`
	Successors []*url.URL  `name:"successor" env:"NOVELGATE_SUCCESSOR" placeholder:"URL"`
	LogLevel   logLevel    `env:"NOVELGATE_LOG_LEVEL" default:"info" placeholder:"LEVEL"`
}

// logLevel is the lowest level that is logged.
type logLevel slog.Level

// UnmarshalText reads the name of a level.
func (l *logLevel) UnmarshalText(text []byte) error {
	if err := (*slog.Level)(l).UnmarshalText(text); err != nil {
		return errors.New("must be debug, info, warn or error")
	}
	return nil
}

// minRequestTimeout leaves enough time for a commit.
const minRequestTimeout = 100 * time.Millisecond

// Validate refuses values out of range; kong calls it.
func (c *serveCommand) Validate() error {
	if c.Lanes < 0 {
		return errors.New("--lanes must not be negative")
	}
	if c.Readers < 1 {
		return errors.New("--readers must be at least 1")
	}
	if c.Sandboxes < 0 {
		return errors.New("--sandboxes must not be negative")
	}
	if c.Sandbox != "" {
		return errors.New("--in-sandbox is not for serve: every serve serves the sandboxes beside its database")
	}
	if c.Connections < 1 {
		return errors.New("--connections must be at least 1")
	}
	c.Lanes = cmp.Or(c.Lanes, committer.DefaultLanes())
	c.DatabaseConnections = cmp.Or(c.DatabaseConnections, database.DefaultConnections(c.Lanes))
	if least := database.LeastConnections(c.Lanes); c.DatabaseConnections < least {
		return fmt.Errorf("--database-connections must be at least %d with %d lanes", least, c.Lanes)
	}
	if c.ImportRetention <= 0 {
		return errors.New("--import-retention must be positive")
	}
	if err := c.Webhooks.validate(); err != nil {
		return err
	}
	if c.RequestTimeout < minRequestTimeout {
		return fmt.Errorf("--request-timeout must be at least %v", minRequestTimeout)
	}
	for _, u := range c.Successors {
		if err := wantHTTP("--successor", u); err != nil {
			return err
		}
	}
	return errors.Join(c.Site.validate(), c.Standbys.validate(), c.Ledger.validate(), c.Relay.validate(),
		c.Mirror.validate(&c.Ledger, &c.Relay))
}

// Run serves until a signal or a fatal error.
func (c *serveCommand) Run(ctx context.Context, out streams, now clock) error {
	logger := out.logger(slog.Level(c.LogLevel))
	collectRarely()

	db := &databaseServer{
		url: c.DatabaseURL, logger: logger, config: pgserver.Config{DataDir: c.DataDir, Logger: logger},
	}
	defer db.stop(context.WithoutCancel(ctx)) // stops last: everything else uses the database
	err := db.open(ctx, c.Lanes, c.DatabaseConnections, c.AllowUnsafeDurability)
	if errors.Is(err, database.ErrStandby) {
		err = db.openStandby(ctx)
	}
	if err != nil {
		return err
	}
	if sandbox.Of(db.pools.General.Config().ConnConfig.Database) != "" {
		return fmt.Errorf("%w, whose content is not public: serve the main database", sandbox.ErrNested)
	}
	s := &service{logger: logger, now: now, db: db, draining: new(atomic.Bool)}
	if err := s.listen(ctx, c); err != nil {
		return err
	}
	if err := s.wire(ctx, c); err != nil {
		return err
	}
	defer s.standbys.Close()
	return s.run(ctx, out)
}

// gcPercent lets the heap grow to several times the live data before a collection. There is little live data, and every
// request allocates: at Go's default a comment costs the service an eighth more CPU. GOGC overrides it. During the
// catch-up of a projection there is more live data. Above memoryLimit, in bytes, collections are more frequent, which
// costs less than new memory pages. GOMEMLIMIT overrides it.
const (
	gcPercent   = 800
	memoryLimit = 256 << 20
)

func collectRarely() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
