package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"novelgate/internal/database"
	"novelgate/internal/pgserver"
)

type serveCommand struct {
	DatabaseFlags

	Sandbox   bool      `env:"NOVELGATE_SANDBOX" help:"Serve a sandbox, in which partners try the interface: a second installation, with a database of its own."`
	Listen    string    `env:"NOVELGATE_LISTEN" default:"127.0.0.1:8080" placeholder:"ADDRESS" help:"Address for partners, staff and readers; port 0 selects a free port (default: ${default})."`
	OpsListen string    `env:"NOVELGATE_OPS_LISTEN" default:"127.0.0.1:8081" placeholder:"ADDRESS" help:"Address for operators: /metrics, /healthz, /readyz, /debug/pprof/ (default: ${default})."`
	PublicURL string    `env:"NOVELGATE_PUBLIC_URL" placeholder:"URL" help:"Prefix of the URLs in responses, the same for all replicas (default: the listening address)."`
	Site      siteFlags `embed:""`

	RequestTimeout  time.Duration `env:"NOVELGATE_REQUEST_TIMEOUT" default:"1900ms" help:"Time limit from the arrival of a request's body to its response; afterwards 503 (default: ${default})."`
	Readers         int           `env:"NOVELGATE_READERS" default:"32" placeholder:"N" help:"Concurrent requests of readers (pages, their JSON, the ledger); others get 503 (default: ${default})."`
	Connections     int           `env:"NOVELGATE_CONNECTIONS" default:"2000" placeholder:"N" help:"Maximum number of open connections at --listen. A connection beyond it takes the place of the one that has waited longest for its client (default: ${default})."`
	ImportRetention time.Duration `env:"NOVELGATE_IMPORT_RETENTION" default:"168h" help:"How long lines and results of a bulk import are kept, and an import without any change stays open (default: ${default})."`
	Webhooks        webhookFlags  `embed:"" prefix:"webhook-" envprefix:"NOVELGATE_WEBHOOK_"`

	DatabaseConnections int `env:"NOVELGATE_DATABASE_CONNECTIONS" default:"20" placeholder:"N" help:"Maximum number of connections to the database (default: ${default})."`

	AllowUnsafeDurability bool `env:"NOVELGATE_ALLOW_UNSAFE_DURABILITY" help:"Start on a database with fsync, synchronous_commit or full_page_writes off. A crash may lose acknowledged commands."`
	PauseProjections      bool `env:"NOVELGATE_PAUSE_PROJECTIONS" help:"Run no asynchronous projections in this process, and do not seal, sign or publish the ledger."`
	PauseLedger           bool `env:"NOVELGATE_PAUSE_LEDGER" help:"Do not seal, sign or publish the ledger in this process."`

	Ledger   LedgerFlags `embed:"" prefix:"ledger-" envprefix:"NOVELGATE_LEDGER_"`
	Relay    RelayFlags  `embed:""`
	LogLevel logLevel    `env:"NOVELGATE_LOG_LEVEL" default:"info" placeholder:"LEVEL" help:"debug, info, warn or error (default: ${default})."`
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

// Validate trims addresses, and refuses values out of range; kong calls
// it.
func (c *serveCommand) Validate() error {
	if c.Readers < 1 {
		return errors.New("--readers must be at least 1")
	}
	if c.Connections < 1 {
		return errors.New("--connections must be at least 1")
	}
	if c.DatabaseConnections < database.LeastConnections {
		return fmt.Errorf("--database-connections must be at least %d", database.LeastConnections)
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
	return errors.Join(c.Site.validate(), c.Ledger.validate(), c.Relay.validate())
}

// Run serves until a signal or a fatal error.
func (c *serveCommand) Run(ctx context.Context, out streams, now clock) error {
	logger := out.logger(slog.Level(c.LogLevel))
	tuneGC()

	db := &databaseServer{
		url: c.DatabaseURL, isSandbox: c.Sandbox, logger: logger, config: pgserver.Config{DataDir: c.DataDir, Logger: logger},
	}
	defer db.stop(context.WithoutCancel(ctx)) // stops last: everything else uses the database
	err := db.open(ctx, c.DatabaseConnections, c.AllowUnsafeDurability)
	if errors.Is(err, database.ErrStandby) {
		err = db.serveReadersOnly(ctx)
	}
	if err != nil {
		return err
	}
	s := &service{logger: logger, now: now, db: db, isSandbox: c.Sandbox}
	if err := s.listen(ctx, c); err != nil {
		return err
	}
	if err := s.wire(ctx, c); err != nil {
		return err
	}
	return s.run(ctx, out)
}

const (
	// gcPercent lets the heap grow to several times the live data before a collection. There is little live data, and
	// every request allocates: at Go's default a comment costs the service an eighth more CPU.
	gcPercent = 800
	// memoryLimit, in bytes, makes collections more frequent above it. There is more live data while a projection catches
	// up, and collections cost less than new memory pages.
	memoryLimit = 256 << 20
)

// tuneGC sets gcPercent and memoryLimit, unless GOGC and GOMEMLIMIT override them.
func tuneGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
