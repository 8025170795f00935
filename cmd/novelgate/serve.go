package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"novelgate/commands"
	"novelgate/commands/access"
	"novelgate/commands/committer"
	"novelgate/commands/imports"
	"novelgate/commands/ratelimit"
	"novelgate/commands/staff"
	"novelgate/commands/webhooks"
	"novelgate/events/eventlog"
	"novelgate/events/ledger"
	"novelgate/events/mirror"
	"novelgate/events/relay"
	"novelgate/internal/database"
	"novelgate/internal/httpkit"
	"novelgate/internal/pgserver"
	"novelgate/internal/sandbox"
	"novelgate/projections"
	"novelgate/projections/rebuild"
	"novelgate/readapi/covers"
	"novelgate/readapi/pages"
)

type serveCommand struct {
	DatabaseFlags
	Listen                string        `env:"NOVELGATE_LISTEN" default:"127.0.0.1:8080" placeholder:"ADDRESS" help:"Address for partners, staff and readers; port 0 selects a free port (default: ${default})."`
	OpsListen             string        `name:"ops-listen" env:"NOVELGATE_OPS_LISTEN" default:"127.0.0.1:8081" placeholder:"ADDRESS" help:"Address for operators: /metrics, /healthz, /readyz, /debug/pprof/ (default: ${default})."`
	PublicURL             string        `name:"public-url" env:"NOVELGATE_PUBLIC_URL" placeholder:"URL" help:"Prefix of the URLs in responses, the same for all replicas (default: the listening address)."`
	Site                  siteFlags     `embed:""`
	RequestTimeout        time.Duration `name:"request-timeout" env:"NOVELGATE_REQUEST_TIMEOUT" default:"1900ms" help:"Time limit from the arrival of a request's body to its response; afterwards 503."`
	Lanes                 int           `env:"NOVELGATE_LANES" default:"0" placeholder:"N" help:"Concurrent batches of commands (default: one for every two processors, at least 2)."`
	Readers               int           `env:"NOVELGATE_READERS" default:"32" placeholder:"N" help:"Concurrent requests of readers (pages, their JSON, the ledger); further ones get 503 (default: ${default})."`
	Connections           int           `env:"NOVELGATE_CONNECTIONS" default:"2000" placeholder:"N" help:"Open connections at --listen; beyond this limit, each new connection closes one that waits for its client (default: ${default})."`
	DatabaseConnections   int           `name:"database-connections" env:"NOVELGATE_DATABASE_CONNECTIONS" default:"0" placeholder:"N" help:"Most connections to the database (default: 20 with two lanes, and one more for each further lane)."`
	Standbys              standbyFlags  `embed:""`
	PauseProjections      bool          `name:"pause-projections" env:"NOVELGATE_PAUSE_PROJECTIONS" help:"Do not run the asynchronous projections and do not seal in this process."`
	ImportRetention       time.Duration `name:"import-retention" env:"NOVELGATE_IMPORT_RETENTION" default:"168h" help:"How long lines and results of a bulk import are kept after its end, and an import without any change stays open (default: ${default})."`
	Webhooks              webhookFlags  `embed:""`
	Sandboxes             int           `env:"NOVELGATE_SANDBOXES" default:"3" placeholder:"N" help:"Sandboxes of partners that are open at a time, with up to 15 database connections each; 0: keys of sandboxes are refused (default: ${default})."`
	Ledger                LedgerFlags   `embed:""`
	Relay                 RelayFlags    `embed:""`
	Successors            []*url.URL    `name:"successor" env:"NOVELGATE_SUCCESSOR" placeholder:"URL" help:"Public URL of a mirror that may be promoted, or the one of this service, which leads to such a mirror then. The service asks it, and accepts no commands once it was. Repeatable."`
	Mirror                mirrorFlags   `embed:""`
	AllowUnsafeDurability bool          `name:"allow-unsafe-durability" env:"NOVELGATE_ALLOW_UNSAFE_DURABILITY" help:"Start on a database that may lose acknowledged commands in a crash (fsync, synchronous_commit or full_page_writes off)."`
	LogLevel              logLevel      `name:"log-level" env:"NOVELGATE_LOG_LEVEL" default:"info" placeholder:"LEVEL" help:"debug, info, warn or error (default: ${default})."`
}

// standbyFlags say where readers read.
type standbyFlags struct {
	URL    string        `name:"read-database-url" env:"NOVELGATE_READ_DATABASE_URL" placeholder:"URL" help:"Hot standbys of the database, one host or several, to read from."`
	MaxLag time.Duration `name:"read-max-lag" env:"NOVELGATE_READ_MAX_LAG" default:"10s" help:"Longest time that a standby may be behind; beyond it the database itself is read (default: ${default})."`
}

// minMaxLag leaves time to look at a standby four times.
const minMaxLag = time.Second

func (f *standbyFlags) validate() error {
	if f.MaxLag < minMaxLag {
		return fmt.Errorf("--read-max-lag must be at least %v", minMaxLag)
	}
	return nil
}

// siteFlags is what the operator decides about the pages.
type siteFlags struct {
	Name    string `name:"site-name" env:"NOVELGATE_SITE_NAME" default:"Novelgate" placeholder:"NAME" help:"Name of the platform on its pages (default: ${default})."`
	Logo    string `name:"site-logo" env:"NOVELGATE_SITE_LOGO" type:"existingfile" placeholder:"FILE" help:"Picture in the header of the pages, in place of the name: SVG or PNG, at most 256 KiB."`
	Accent  string `name:"site-accent" env:"NOVELGATE_SITE_ACCENT" placeholder:"COLOUR" help:"Colour of the line at the top of the pages, such as #1a4fc4."`
	Imprint string `name:"site-imprint" env:"NOVELGATE_SITE_IMPRINT" placeholder:"URL" help:"Address of the imprint, for the foot of the pages."`
	Terms   string `name:"site-terms" env:"NOVELGATE_SITE_TERMS" placeholder:"URL" help:"Address of the terms of use, for the foot of the pages."`
	Covers  string `env:"NOVELGATE_COVERS" default:"direct" enum:"direct,proxy,none" placeholder:"HOW" help:"direct: browsers load covers from the partners' hosts; proxy: the service loads them; none: pages show the first letter of the title (default: ${default})."`

	logo *pages.Logo // what --site-logo has
}

var colour = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)

func (f *siteFlags) validate() error {
	if f.Accent != "" && !colour.MatchString(f.Accent) {
		return errors.New("--site-accent must be a colour such as #1a4fc4")
	}
	for flag, address := range map[string]string{"--site-imprint": f.Imprint, "--site-terms": f.Terms} {
		u, err := url.Parse(address)
		if address != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "") {
			return fmt.Errorf("%s must be an http or https address", flag)
		}
	}
	return f.readLogo()
}

// readLogo reads --site-logo.
func (f *siteFlags) readLogo() error {
	if f.Logo == "" {
		return nil
	}
	file, err := os.Open(f.Logo)
	if err != nil {
		return fmt.Errorf("--site-logo: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was only read from
	content, err := io.ReadAll(io.LimitReader(file, pages.MaxLogo+1))
	if err == nil {
		f.logo, err = pages.NewLogo(content)
	}
	if err != nil {
		return fmt.Errorf("--site-logo %s: %w", f.Logo, err)
	}
	return nil
}

func (f *siteFlags) site(now clock) pages.Site {
	return pages.Site{
		Name: f.Name, Logo: f.logo, Accent: f.Accent, Imprint: f.Imprint, Terms: f.Terms, Covers: pages.Covers(f.Covers),
		Proxy: covers.New(now),
	}
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

// service is all parts of a running serve command.
type service struct {
	logger   *slog.Logger
	now      clock
	db       *databaseServer
	draining *atomic.Bool

	keys          *access.Keys
	limiter       *ratelimit.Limiter
	committer     *committer.Committer
	standbys      *database.Standbys // nil without --read-database-url
	imports       *imports.Worker
	webhooks      *webhooks.Worker
	sandboxes     *sandboxes     // nil in a sandbox
	mirror        *mirror.Mirror // nil unless this is a mirror, or was one when it started
	partners      *commands.API
	runner        *projections.Runner // nil when the projections are paused
	ledgerMetrics *ledger.Metrics
	relayMetrics  *relay.Metrics
	wake          *eventlog.Wake
	tail          *eventlog.Tail
	background    []func(context.Context) // each runs until its context ends
	roles         *roles
	asOrigin      []func(context.Context) // background work while commands are accepted
	asMirror      []func(context.Context) // background work while the database is a mirror

	isSandbox                   bool
	handler                     http.Handler // of all public routes
	publicURL                   *url.URL
	public, ops                 *http.Server
	connections                 *httpkit.Connections // of public
	publicListener, opsListener net.Listener
}

// listen opens the listeners, which end with the process.
func (s *service) listen(ctx context.Context, c *serveCommand) (err error) {
	if s.publicListener, err = listen(ctx, c.Listen); err != nil {
		return err
	}
	if s.opsListener, err = listen(ctx, c.OpsListen); err != nil {
		return err
	}
	s.publicURL, err = publicURL(c.PublicURL, s.publicListener.Addr())
	return err
}

// wire creates all parts. Steps that may fail come first, so that a failure leaves nothing behind.
func (s *service) wire(ctx context.Context, c *serveCommand) (err error) {
	pools := s.db.pools
	s.wake = eventlog.NewWake()
	s.ledgerMetrics, s.relayMetrics = ledger.NewMetrics(), relay.NewMetrics()
	s.roles = &roles{db: pools.General, now: s.now}
	s.background = append(s.background, s.db.watch)
	if s.db.isStandby {
		err = s.roles.read(ctx)
	} else {
		err = s.workOnLog(ctx, c)
	}
	if err != nil {
		return err
	}

	// Requests.
	s.keys = access.New(pools.Access, s.now)
	s.limiter = ratelimit.New(pools.Limits, s.now)
	committed := committer.NewMetrics()
	s.committer = committer.New(committer.Config{
		Pool: pools.Append, Permits: s.limiter, Logger: s.logger, Metrics: committed, Lanes: c.Lanes,
		Timeout: c.RequestTimeout * 4 / 5, Committed: s.wake.Signal,
	})
	s.workOnImports(c.ImportRetention)
	s.workOnWebhooks(&c.Webhooks)
	readers := httpkit.NewReaders("public", c.Readers, 0, c.RequestTimeout)
	staff := httpkit.NewReaders("staff", staffRequests, staffAnswers, c.RequestTimeout)
	streams := httpkit.NewReaders("streams", auditorStreams, 0, c.RequestTimeout)
	partnerStreams := httpkit.NewReaders("partnerStreams", partnerStreams, 0, c.RequestTimeout)
	requests, outcomes := httpkit.NewMetrics(), commands.NewOutcomes()
	kit := s.newKit(c.RequestTimeout, readers, staff)
	s.handler = s.publicHandler(c.Site.site(s.now), kit, streams, partnerStreams, requests, outcomes)
	if s.isSandbox {
		return nil
	}
	s.sandboxes = newSandboxes(s, c, kit)
	s.public = newServer(s.closeConnections(httpkit.WithRequestID(s.sandboxes.route(s.handler))), s.logger,
		publicWriteTimeout)
	s.connections = httpkit.NewConnections(c.Connections)
	registry := s.metrics(requests, outcomes, committed, readers, staff, streams, partnerStreams,
		s.connections)
	s.ops = newServer(s.opsHandler(registry), s.logger, opsWriteTimeout)
	return nil
}

// workOnLog makes the background work, except that for which requests need a part.
func (s *service) workOnLog(ctx context.Context, c *serveCommand) (err error) {
	pools := s.db.pools
	s.background = append(s.background, s.notify, s.forgetKeys, s.followRole)
	if err := s.workOnMirror(ctx, &c.Mirror); err != nil {
		return err
	}
	if err := s.roles.read(ctx); err != nil {
		return err
	}
	s.asOrigin = append(s.asOrigin, s.saveUsage, s.announce)
	if err := s.watchSuccessors(ctx, c); err != nil {
		return err
	}
	if !c.PauseProjections {
		s.tail = eventlog.NewTail(pools.General.Config().ConnConfig, 0)
		if s.runner, err = projections.NewRunner(projections.Config{
			Pool: pools.General, Extra: pools.Extra, Tail: s.tail, Wake: s.wake, Logger: s.logger,
		}); err != nil {
			return err
		}
		s.background = append(s.background, func(ctx context.Context) {
			rebuild.Watch(ctx, rebuild.UpgradeConfig{
				Pool: pools.General, Extra: pools.Extra, Connections: database.ExtraConnections, Now: s.now, Logger: s.logger,
			})
		})
	}
	if !c.PauseProjections && !c.Ledger.Pause {
		if err := s.workOnLedger(ctx, &c.Ledger, c.DataDir); err != nil {
			return err
		}
	}

	if err := s.workOnRelay(ctx, &c.Relay); err != nil {
		return err
	}
	if c.Standbys.URL != "" {
		if s.standbys, err = database.OpenStandbys(
			ctx, c.Standbys.URL, pools, c.Standbys.MaxLag, s.now, s.logger,
		); err != nil {
			return err
		}
		s.background = append(s.background, s.standbys.Watch)
	}
	return nil
}

// takesCommands reports whether the service does more than to serve readers.
func (s *service) takesCommands() bool { return !s.db.isStandby && s.roles.last().Appends() }

// workOnImports makes the worker for the lines of bulk imports.
func (s *service) workOnImports(retention time.Duration) {
	s.imports = imports.NewWorker(&imports.Store{Pool: s.db.pools.General})
	s.imports.Committer, s.imports.Limiter, s.imports.Retention = s.committer, s.limiter, retention
	s.imports.Now, s.imports.Logger, s.imports.Metrics = s.now, s.logger, imports.NewMetrics()
	s.imports.Addresses = httpkit.NewAddresses(s.publicURL)
	s.asOrigin = append(s.asOrigin, s.imports.Run)
}

// Limits on concurrent requests of staff and auditors, on concurrent computations of their responses, and on open
// streams of the history and of change feeds. Each may use half a megabyte.
const (
	staffRequests  = 64
	staffAnswers   = 4
	auditorStreams = 100
	partnerStreams = 100
)

// publicURL returns the prefix of the URLs in responses.
func publicURL(flag string, listening net.Addr) (*url.URL, error) {
	if flag == "" {
		address := listening.String()
		if tcp, ok := listening.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
			// The unspecified address does not work in a link.
			address = net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
		}
		return &url.URL{Scheme: "http", Host: address}, nil
	}
	u, err := url.Parse(strings.TrimRight(flag, "/"))
	if err != nil {
		return nil, fmt.Errorf("--public-url: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("--public-url: %q is not an http or https address without query and fragment", flag)
	}
	return u, nil
}

// metrics returns the registry with the metrics of requests and of the process.
func (s *service) metrics(requests ...prometheus.Collector) *prometheus.Registry {
	b := thisBuild()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "novelgate_build_info", Help: "Version, commit and Go version of this process; always 1.",
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit, "go": b.Go},
	})
	info.Set(1)
	registry := prometheus.NewRegistry()
	registry.MustRegister(requests...)
	if s.standbys != nil {
		registry.MustRegister(s.standbys)
	}
	if s.mirror != nil {
		registry.MustRegister(s.mirror)
	}
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		info,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "novelgate_committer_queue_commands", Help: "Commands in the queues of the lanes.",
		}, func() float64 { return float64(s.committer.QueueDepth()) }),
		database.NewPoolCollector(s.db.pools),
		database.NewReadyCollector(s.probe),
		projections.NewCollector(s.db.pools.General, s.now),
		s.ledgerMetrics,
		s.relayMetrics,
		s.imports.Metrics,
		s.webhooks.Metrics,
		ledger.NewCollector(s.db.pools.General, s.now),
	)
	return registry
}

// notify tells other replicas of appends.
func (s *service) notify(ctx context.Context) { s.wake.Notify(ctx, s.db.pools.General, s.logger) }

// forgetKeys clears the cache of keys when any replica changes a key or an integration.
func (s *service) forgetKeys(ctx context.Context) {
	database.Listen(ctx, s.db.pools.General.Config().ConnConfig, s.logger,
		map[string]func(string){access.Channel: func(string) { s.keys.Forget() }})
}

// announce tells integrations of completed imports and of keys that expire soon.
func (s *service) announce(ctx context.Context) {
	announcer := staff.Staff{Pool: s.db.pools.General, Actor: staff.ServiceActor, Now: s.now}
	announcer.Announce(ctx, s.logger)
}

// usageInterval is how often the last use of keys is saved.
const usageInterval = 30 * time.Second

func (s *service) saveUsage(ctx context.Context) {
	ticker := time.NewTicker(usageInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := s.keys.SaveUsage(ctx); err != nil && !errors.Is(err, context.Canceled) {
				s.logger.WarnContext(ctx, "last use of keys not saved", slog.Any("error", err))
			}
		}
	}
}

// work runs the background work in group until ctx ends.
func (s *service) work(ctx context.Context, group *errgroup.Group) {
	for _, work := range s.background {
		group.Go(func() error { work(ctx); return nil })
	}
	if s.runner != nil {
		group.Go(func() error { return s.runner.Run(ctx) })
	}
}

// run starts all parts, prints the addresses, and runs until ctx ends. Then it drains.
func (s *service) run(ctx context.Context, out streams) error {
	group, groupCtx := errgroup.WithContext(ctx)
	s.work(groupCtx, group)
	if s.db.isStandby {
		group.Go(func() error { return s.db.awaitPromotion(groupCtx) })
	}
	group.Go(func() error { return served(s.opsListener, s.ops.Serve(s.opsListener)) })
	group.Go(func() error { return served(s.publicListener, s.connections.Serve(s.public, s.publicListener)) })

	fmt.Fprintf(out.stdout, "Novelgate is listening on http://%s\n", s.publicListener.Addr())
	fmt.Fprintf(out.stdout, "Operations (metrics, health, pprof) on http://%s\n", s.opsListener.Addr())
	if s.takesCommands() {
		s.welcome(ctx, out)
	}

	group.Go(func() error {
		<-groupCtx.Done()
		signal.Reset(os.Interrupt) // another Ctrl-C ends the process at once
		s.logger.InfoContext(ctx, "shutting down: completing accepted requests")
		s.drain(context.WithoutCancel(ctx))
		return nil
	})
	if err := group.Wait(); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	s.logger.InfoContext(ctx, "stopped")
	return nil
}

// drainTimeout is how long a shutdown waits for running requests.
const drainTimeout = 20 * time.Second

// lastRequestsTime is how long requests on open connections are accepted after the listener is closed.
const lastRequestsTime = 200 * time.Millisecond

// drain stops accepting requests, completes the accepted ones, and stops all parts.
func (s *service) drain(ctx context.Context) {
	s.draining.Store(true)
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	// After Shutdown begins, net/http drops newly read requests without a response. So first close the listener, and let
	// requests on open connections get responses that close the connection.
	s.publicListener.Close() //nolint:errcheck // the server closes it again
	time.Sleep(lastRequestsTime)
	if err := s.public.Shutdown(ctx); err != nil {
		s.logger.WarnContext(ctx, "requests were cut off", slog.Any("error", err))
		s.public.Close() //nolint:errcheck // drainTimeout has passed
	}
	s.sandboxes.closeAll()
	s.finish(ctx)
	if err := s.ops.Shutdown(ctx); err != nil {
		s.ops.Close() //nolint:errcheck // drainTimeout has passed
	}
}

// finish stops the parts that commands need, after the last request.
func (s *service) finish(ctx context.Context) {
	s.committer.Close()
	s.limiter.Close()
	if s.takesCommands() {
		if err := s.keys.SaveUsage(ctx); err != nil {
			s.logger.WarnContext(ctx, "last use of keys not saved", slog.Any("error", err))
		}
	}
}
