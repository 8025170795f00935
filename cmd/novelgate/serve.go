package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/net/netutil"

	"novelgate/commands"
	"novelgate/commands/bulk"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/commands/refusals"
	"novelgate/commands/staff"
	"novelgate/commands/webhooks"
	"novelgate/events/eventlog"
	"novelgate/events/ledger"
	"novelgate/events/relay"
	"novelgate/internal/auth"
	"novelgate/internal/console"
	"novelgate/internal/database"
	"novelgate/internal/pgserver"
	"novelgate/internal/problem"
	"novelgate/internal/tracing"
	"novelgate/internal/web"
	"novelgate/projections"
	"novelgate/projections/rebuild"
	"novelgate/readapi"
	"novelgate/readapi/changes"
	"novelgate/readapi/history"
	"novelgate/readapi/pages"
)

type serveCommand struct {
	DatabaseFlags
	BackupFlag

	Sandbox   bool      `env:"NOVELGATE_SANDBOX" help:"Serve a sandbox, in which partners try the interface: a second installation, with a database of its own."`
	Listen    string    `env:"NOVELGATE_LISTEN" default:"127.0.0.1:8080" placeholder:"ADDRESS" help:"Address for partners, staff and readers; port 0 selects a free port (default: ${default})."`
	Ops       opsFlags  `embed:""`
	PublicURL string    `env:"NOVELGATE_PUBLIC_URL" placeholder:"URL" help:"Prefix of the URLs in responses, the same for all replicas (default: the listening address)."`
	Site      siteFlags `embed:""`

	RequestTimeout time.Duration `env:"NOVELGATE_REQUEST_TIMEOUT" default:"1900ms" help:"Time limit from the arrival of a request's body to its response; afterwards 503 (default: ${default})."`
	Readers        int           `env:"NOVELGATE_READERS" default:"8" placeholder:"N" help:"Answers for readers (pages, their JSON, the ledger) that are made at the same time; other readers wait, and get 503 after --request-timeout (default: ${default})."`
	Connections    int           `env:"NOVELGATE_CONNECTIONS" default:"2000" placeholder:"N" help:"Maximum number of open connections at --listen; others wait to be accepted (default: ${default})."`
	Console        bool          `env:"NOVELGATE_CONSOLE" default:"true" negatable:"" help:"Serve the console of staff and auditors, at /console."`
	ConsoleOn      string        `env:"NOVELGATE_CONSOLE_ON" default:"public" enum:"public,ops" placeholder:"LISTENER" help:"Where the console is: public, at --listen, or ops, at --ops-listen (default: ${default})."`
	SearchComments bool          `env:"NOVELGATE_SEARCH_COMMENTS" help:"Keep the words of comments, so that staff find comments by their text. The replica that starts last decides for all; without this flag it deletes the words."`
	Webhooks       webhookFlags  `embed:"" prefix:"webhook-" envprefix:"NOVELGATE_WEBHOOK_"`

	AllowUnsafeDurability bool `env:"NOVELGATE_ALLOW_UNSAFE_DURABILITY" help:"Start on a database with fsync, synchronous_commit or full_page_writes off. A crash may lose acknowledged commands."`

	Ledger   LedgerFlags `embed:"" prefix:"ledger-" envprefix:"NOVELGATE_LEDGER_"`
	Relay    RelayFlags  `embed:""`
	LogLevel logLevel    `env:"NOVELGATE_LOG_LEVEL" default:"info" placeholder:"LEVEL" help:"debug, info, warn or error (default: ${default})."`

	LogFormat string `env:"NOVELGATE_LOG_FORMAT" default:"text" enum:"text,json" placeholder:"FORMAT" help:"text or json (default: ${default})."`
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
	if c.Readers < 1 {
		return errors.New("--readers must be at least 1")
	}
	if c.Connections < 1 {
		return errors.New("--connections must be at least 1")
	}
	if c.RequestTimeout < minRequestTimeout {
		return fmt.Errorf("--request-timeout must be at least %v", minRequestTimeout)
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if err := c.Ops.validate(); err != nil {
		return err
	}
	if c.BackupDir != "" && c.DatabaseURL != "" {
		return errors.New("--backup-dir is for the embedded PostgreSQL, and there is --database-url")
	}
	if c.PublicURL != "" {
		if _, err := publicURL(c.PublicURL, nil); err != nil {
			return err
		}
	}
	return errors.Join(c.Site.validate(), c.Ledger.validate(), c.Relay.validate())
}

// shared is what the parts of a service have in common.
type shared struct {
	logger    *slog.Logger
	now       func() time.Time
	pools     *database.Pools
	wake      *eventlog.Wake
	metrics   *prometheus.Registry
	kit       *web.Kit
	addresses web.Addresses
	tracer    trace.Tracer // of batches; nil: none
	opsAPIs   []registrar  // besides those that every service has
	draining  atomic.Bool  // requests are completed, and no new ones are accepted
}

// run serves until a signal, or until a part fails. On a standby it serves readers only.
func (c *serveCommand) run(ctx context.Context, env *environment) error {
	tuneGC()
	var lines slog.Handler = slog.NewTextHandler(env.stderr, logOptions(slog.Level(c.LogLevel)))
	if c.LogFormat == "json" {
		lines = slog.NewJSONHandler(env.stderr, logOptions(slog.Level(c.LogLevel)))
	}
	logger := slog.New(newOutages(lines))
	traces, err := tracing.New(ctx, version, logger)
	if err != nil {
		return err
	}
	defer traces.Stop(context.WithoutCancel(ctx))
	db := &databaseServer{
		url: c.DatabaseURL, isSandbox: c.Sandbox, logger: logger, tracer: traces.Statements(),
		config: pgserver.Config{DataDir: c.DataDir, BackupDir: c.BackupDir, Logger: logger},
	}
	// Before an embedded server is created for nothing. The ports are not kept: until the service can answer, clients are
	// refused.
	for flag, address := range map[string]string{"--listen": c.Listen, "--ops-listen": c.Ops.OpsListen} {
		free, err := listen(ctx, flag, address)
		if err != nil {
			return err
		}
		_ = free.Close()
	}
	defer db.stop(context.WithoutCancel(ctx)) // stops last: everything else uses the database
	if err := db.open(ctx, c.AllowUnsafeDurability); err != nil {
		return err
	}
	listener, err := listen(ctx, "--listen", c.Listen)
	if err != nil {
		return err
	}
	opsListener, err := listen(ctx, "--ops-listen", c.Ops.OpsListen)
	if err != nil {
		return err
	}
	prefix, err := publicURL(c.PublicURL, listener.Addr())
	if err != nil {
		return err
	}

	s := &shared{
		logger: logger, now: env.now, pools: db.pools, wake: eventlog.NewWake(), metrics: newRegistry(),
		addresses: web.NewAddresses(prefix), tracer: traces.Tracer(),
	}
	s.metrics.MustRegister(database.NewPoolCollector(s.pools))
	if size, _ := pgserver.Disk(c.DataDir); c.DatabaseURL == "" && size > 0 {
		s.metrics.MustRegister(diskMetrics(c.DataDir)...)
	}
	s.kit = &web.Kit{
		Logger: logger, Timeout: c.RequestTimeout, Now: env.now,
		Metrics:  registered(s.metrics, web.NewMetrics()),
		Readers:  registered(s.metrics, web.NewReaders(c.Readers)),
		Problems: []func(error) *problem.Error{commands.Problem, staff.Problem, readapi.Problem, history.Problem},
	}
	if s.tracer != nil {
		s.kit.Answered = tracing.Answered
	}
	router := mux.NewRouter().SkipClean(true) // cleaning a path would redirect a POST
	health := &readapi.Health{Draining: s.draining.Load}

	at := db.pools.General.Config().ConnConfig
	logger.InfoContext(ctx, "starting", slog.String("version", version), slog.String("commit", thisCommit()),
		slog.String("listen", listener.Addr().String()), slog.String("opsListen", opsListener.Addr().String()),
		slog.String("publicUrl", prefix.String()),
		slog.String("database", net.JoinHostPort(at.Host, strconv.Itoa(int(at.Port)))+"/"+at.Database),
		slog.Bool("sandbox", c.Sandbox), slog.Bool("standby", db.isStandby), slog.Bool("relay", c.Relay.URL != ""))
	parts := []part{{"embedded database", always(db.watch)}}
	if c.BackupDir != "" {
		parts = append(parts, s.archiving(c.BackupDir))
	}
	if db.isStandby {
		parts = append(parts, part{"standby", db.awaitPromotion})
		health.Probe = func() map[string]error { return map[string]error{"commands": errReadersOnly} }
		refuseCommands(router, s.kit)
	} else {
		primary, partners, err := c.primary(ctx, s, router, prefix)
		if err != nil {
			return err
		}
		parts = append(parts, primary...)
		health.Probe = func() map[string]error { //nolint:contextcheck // it has a time limit of its own
			found := maps.Clone(s.pools.Probe())
			found["commands"] = partners.Failing()
			return found
		}
	}
	s.metrics.MustRegister(database.NewReadyCollector(health.Probe))
	reader := &readapi.Reader{DB: s.pools.Read, Addresses: s.addresses}
	p := &pages.Pages{Kit: s.kit, Reader: reader, Site: c.Site.site(c.Sandbox)}
	register(router, health, p,
		&readapi.API{Kit: s.kit, Reader: reader},
		// The readers' pool, so that clients that fetch proofs do not take the sealer's connections.
		&readapi.Ledger{Kit: s.kit, Store: ledger.NewStore(s.pools.Read)})

	parts = append(parts,
		s.operations(opsListener, health),
		s.requests(netutil.LimitListener(listener, c.Connections), traces.Handler(s.kit.Handler(router, p.Missing())),
			c.Sandbox),
		s.systemd(opsListener.Addr()))
	fmt.Fprintf(env.stdout, "Novelgate is listening on http://%s\n", listener.Addr())
	fmt.Fprintf(env.stdout, "Operations (metrics, health, pprof) on http://%s\n", opsListener.Addr())
	if !db.isStandby {
		db.welcome(ctx, env, prefix)
	}
	if err := runParts(ctx, parts); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	logger.InfoContext(ctx, "stopped")
	return nil
}

// diskMetrics are the metrics of the disk of an embedded server.
func diskMetrics(dataDir string) []prometheus.Collector {
	gauge := func(name, help string, value func(size, free uint64) uint64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			return float64(value(pgserver.Disk(dataDir)))
		})
	}
	return []prometheus.Collector{
		gauge("novelgate_disk_size_bytes", "Size of the disk of the embedded database.",
			func(size, _ uint64) uint64 { return size }),
		gauge("novelgate_disk_free_bytes", "Free bytes of the disk of the embedded database.",
			func(_, free uint64) uint64 { return free }),
	}
}

// primary returns the parts that only a service on a primary has, and registers the routes of partners, staff and
// auditors.
func (c *serveCommand) primary(ctx context.Context, s *shared, router *mux.Router, prefix *url.URL) (
	[]part, *commands.API, error,
) {
	pool := s.pools.General
	s.metrics.MustRegister(projections.NewCollector(pool, s.now), ledger.NewCollector(pool, s.now))
	keys := auth.NewKeys(s.pools.Access, s.now)
	parts := []part{
		{"keys", always(func(ctx context.Context) { s.saveUsage(ctx, keys) })},
		{"notifications of appends", always(func(ctx context.Context) { s.wake.Notify(ctx, pool, s.logger) })},
	}
	tail := eventlog.NewTail(pool.Config().ConnConfig, 0)
	followed := append(projections.All(), projections.Optional()...)
	runner, err := projections.NewRunner(projections.Config{
		Pool: pool, Projections: followed, Tail: tail, Wake: s.wake, Logger: s.logger, Tracer: s.tracer,
	})
	if err != nil {
		return nil, nil, err
	}
	// Tables of an older generation are there after an upgrade, and after a failover or a restore.
	upgrade := rebuild.UpgradeConfig{Pool: pool, Projections: followed, Now: s.now, Logger: s.logger}
	parts = append(parts, part{"projections", runner.Run}, part{"rebuilds", always(func(ctx context.Context) {
		for switched, more := false, true; more; more = eventlog.Sleep(ctx, upgradeInterval) {
			switched = switched || c.switchWords(ctx, s)
			rebuild.Upgrade(ctx, upgrade)
		}
	})})
	signing, err := c.Ledger.parts(ctx, ledger.SealerConfig{
		Pool: pool, Tail: tail, Wake: s.wake, Metrics: registered(s.metrics, ledger.NewMetrics()), Clock: s.now,
		Logger: s.logger,
	}, c.DataDir, prefix)
	if err != nil {
		return nil, nil, fmt.Errorf("start the ledger: %w", err)
	}
	parts = append(parts, signing...)
	if c.Relay.URL != "" {
		metrics := registered(s.metrics, relay.NewMetrics())
		metrics.AddLag(pool, s.now) //nolint:contextcheck // a scrape has no context
		p, err := c.Relay.part(ctx, relay.Config{
			Database: pool.Config().ConnConfig, Tail: tail, Wake: s.wake, Metrics: metrics, Logger: s.logger,
		})
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, p)
	}

	limiter := ratelimit.New(s.now)
	commit := committer.New(committer.Config{
		Pool: s.pools.Append, Limiter: limiter, Breaker: &eventlog.Breaker{Pool: s.pools.Access, Logger: s.logger},
		Logger: s.logger, Metrics: registered(s.metrics, committer.NewMetrics()),
		Timeout: c.RequestTimeout * 4 / 5, Committed: s.wake.Signal, Tracer: s.tracer,
	})
	s.metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "novelgate_committer_queue_commands", Help: "Commands that wait for a batch.",
	}, func() float64 { return float64(commit.QueueDepth()) }))
	hooks := &webhooks.Worker{
		Pool: pool, Feed: webhookFeed{&changes.Feed{DB: pool}}, Sender: webhooks.NewSender(c.Webhooks.AllowCIDR, s.now),
		Now: s.now, Logger: s.logger, Metrics: registered(s.metrics, webhooks.NewMetrics()),
	}
	recorder := &refusals.Recorder{
		Pool: pool, Now: s.now, Logger: s.logger, Metrics: registered(s.metrics, refusals.NewMetrics()),
	}
	s.kit.Refused = recorder.Add
	parts = append(parts,
		part{"refusals", always(recorder.Run)},
		part{"limits", always(func(ctx context.Context) { limiter.Run(ctx, pool, s.logger) })},
		part{"committer", func(ctx context.Context) error { <-ctx.Done(); commit.Close(); return nil }},
		part{"webhooks", always(hooks.Run)})

	partners, staffUsers := auth.NewPartners(s.kit, keys.Authenticate), auth.NewStaff(s.kit, keys)
	limits := commands.Limits{Limiter: limiter}
	partners.Headers = limits.SetHeaders
	api := &commands.API{
		Partners: partners, Committer: commit, Limits: limits, DB: s.pools.Read,
		Outcomes: registered(s.metrics, commands.NewOutcomes()), Addresses: s.addresses,
	}
	if c.Sandbox {
		api.Simulator = commands.NewSimulator()
	}
	register(router, api,
		&bulk.API{
			Kit: s.kit, Partners: partners, Committer: commit, Addresses: s.addresses, Draining: s.draining.Load,
			Outcomes: registered(s.metrics, bulk.NewOutcomes()),
		},
		&refusals.API{Partners: partners, DB: s.pools.Read},
		&webhooks.API{Partners: partners, Store: &webhooks.Store{Pool: pool}, Sender: hooks.Sender},
		&changes.API{
			Kit: s.kit, Feed: &changes.Feed{DB: s.pools.Read}, Partners: partners, Draining: s.draining.Load,
		},
		&staff.API{Kit: s.kit, Staff: staffUsers, Pool: pool},
		&history.API{Kit: s.kit, DB: s.pools.History, Wake: s.wake, Draining: s.draining.Load, Staff: staffUsers})
	if c.Console {
		tidy, err := c.addConsole(s, router, keys, hooks.Sender, prefix)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, tidy)
	}
	return parts, api, nil
}

// addConsole adds the console to one of the listeners. The part tidies up.
func (c *serveCommand) addConsole(
	s *shared, router *mux.Router, keys *auth.Keys, sender *webhooks.Sender, prefix *url.URL,
) (part, error) {
	config := console.Config{
		Kit: s.kit, Keys: keys, Pool: s.pools.General, Access: s.pools.Access, History: s.pools.History,
		Addresses: s.addresses, Metrics: registered(s.metrics, console.NewMetrics()), Sender: sender,
		Version: version, Gatherer: s.metrics,
		Diagnose: func(ctx context.Context) []database.Finding {
			status, err := ledger.ReadStatus(ctx, s.pools.General)
			return c.diagnose(ctx, s.pools.General, s.now, &status, err)
		},
	}
	if c.ConsoleOn == "public" {
		config.Base, config.Origins = s.addresses.Base(), []string{prefix.Scheme + "://" + prefix.Host}
	}
	made, err := console.New(config)
	switch {
	case err != nil:
		return part{}, fmt.Errorf("console: %w", err)
	case c.ConsoleOn == "public":
		register(router, made)
	default:
		s.opsAPIs = append(s.opsAPIs, made)
	}
	return part{"console", always(made.Run)}, nil
}

// registrar has routes.
type registrar interface{ Register(router *mux.Router) }

// switchWords switches the projection of words on or off for all replicas, and reports whether it has.
func (c *serveCommand) switchWords(ctx context.Context, s *shared) bool {
	switchTo := rebuild.SwitchOff
	if c.SearchComments {
		switchTo = rebuild.SwitchOn
	}
	err := switchTo(ctx, s.pools.General, projections.Words{})
	if err != nil && ctx.Err() == nil {
		s.logger.WarnContext(ctx, "--search-comments has no effect yet; trying again", slog.Any("error", err))
	}
	return err == nil
}

// register adds the routes of APIs.
func register(router *mux.Router, apis ...registrar) {
	for _, api := range apis {
		api.Register(router)
	}
}

// upgradeInterval is the time between checks for tables of an older generation, usageInterval that between saves of
// the last use of keys.
const (
	upgradeInterval = 5 * time.Second
	usageInterval   = 30 * time.Second
	usageTimeout    = 5 * time.Second
)

// saveUsage saves when keys were used last, regularly and at the end.
func (s *shared) saveUsage(ctx context.Context, keys *auth.Keys) {
	for more := true; more; {
		more = eventlog.Sleep(ctx, usageInterval)
		saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), usageTimeout)
		if err := keys.SaveUsage(saving); err != nil {
			s.logger.WarnContext(ctx, "last use of keys not saved", slog.Any("error", err))
		}
		cancel()
	}
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
