package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
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
	"novelgate/commands/ratelimit"
	"novelgate/events/eventlog"
	"novelgate/events/ledger"
	"novelgate/internal/database"
	"novelgate/internal/httpkit"
	"novelgate/internal/pgserver"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

type serveCommand struct {
	DatabaseFlags
	Listen                string        `env:"NOVELGATE_LISTEN" default:"127.0.0.1:8080" placeholder:"ADDRESS" help:"Where partners and readers connect; port 0 takes a free one (default: ${default})."`
	OpsListen             string        `name:"ops-listen" env:"NOVELGATE_OPS_LISTEN" default:"127.0.0.1:8081" placeholder:"ADDRESS" help:"Where operators connect: /metrics, /healthz, /readyz, /debug/pprof/ (default: ${default})."`
	PublicURL             string        `name:"public-url" env:"NOVELGATE_PUBLIC_URL" placeholder:"URL" help:"What the URLs in answers begin with (default: the listening address). The same for all replicas."`
	RequestTimeout        time.Duration `name:"request-timeout" env:"NOVELGATE_REQUEST_TIMEOUT" default:"1900ms" help:"Within which a request is answered once its body has arrived, with 503 if need be."`
	Lanes                 int           `env:"NOVELGATE_LANES" default:"0" placeholder:"N" help:"Batches of commands in flight at a time (default: one for every two processors, at least 2)."`
	Readers               int           `env:"NOVELGATE_READERS" default:"32" placeholder:"N" help:"Requests of readers (pages, their JSON, the ledger) that are answered at a time; more get 503 (default: ${default})."`
	Connections           int           `env:"NOVELGATE_CONNECTIONS" default:"10000" placeholder:"N" help:"Open connections at --listen; beyond that one without a request is closed for each new one (default: ${default})."`
	PauseProjections      bool          `name:"pause-projections" env:"NOVELGATE_PAUSE_PROJECTIONS" help:"Do not run the asynchronous projections in this process, nor seal."`
	Ledger                LedgerFlags   `embed:""`
	AllowUnsafeDurability bool          `name:"allow-unsafe-durability" env:"NOVELGATE_ALLOW_UNSAFE_DURABILITY" help:"Start on a database that may lose acknowledged commands in a crash (fsync, synchronous_commit or full_page_writes off)."`
	LogLevel              logLevel      `name:"log-level" env:"NOVELGATE_LOG_LEVEL" default:"info" placeholder:"LEVEL" help:"debug, info, warn or error (default: ${default})."`
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

// minRequestTimeout leaves a commit time to happen.
const minRequestTimeout = 100 * time.Millisecond

// Validate refuses values that make no sense; kong calls it.
func (c *serveCommand) Validate() error {
	if c.Lanes < 0 {
		return errors.New("--lanes must not be negative")
	}
	if c.Readers < 1 {
		return errors.New("--readers must be at least 1")
	}
	if c.Connections < 1 {
		return errors.New("--connections must be at least 1")
	}
	c.Lanes = cmp.Or(c.Lanes, committer.DefaultLanes())
	if c.RequestTimeout < minRequestTimeout {
		return fmt.Errorf("--request-timeout must be at least %v", minRequestTimeout)
	}
	return c.Ledger.validate()
}

// Run serves until a signal comes or something that it cannot do without fails.
func (c *serveCommand) Run(ctx context.Context, out streams, now clock) error {
	logger := out.logger(slog.Level(c.LogLevel))
	collectRarely()

	db := &databaseServer{
		url: c.DatabaseURL, logger: logger, config: pgserver.Config{DataDir: c.DataDir, Logger: logger},
	}
	defer db.stop(context.WithoutCancel(ctx)) // the last thing to stop: everything else uses it
	if err := db.open(ctx, c.Lanes, c.AllowUnsafeDurability); err != nil {
		return err
	}
	s := &service{logger: logger, now: now, db: db}
	if err := s.wire(ctx, c); err != nil {
		return err
	}
	return s.run(ctx, out)
}

// gcPercent lets the heap grow to several times what is live before it is collected. Little is live, and every request
// allocates: at Go's default a comment costs the service an eighth more CPU. GOGC overrides it. While a projection
// catches up more is live: from memoryLimit on, in bytes, it is collected more often, which costs less than new pages
// do. GOMEMLIMIT overrides that.
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

// service is everything that serve runs, wired.
type service struct {
	logger   *slog.Logger
	now      clock
	db       *databaseServer
	draining atomic.Bool

	keys          *access.Keys
	limiter       *ratelimit.Limiter
	committer     *committer.Committer
	partners      *commands.API
	runner        *projections.Runner // nil when the projections are paused
	ledgerMetrics *ledger.Metrics
	wake          *eventlog.Wake
	background    []func(context.Context) // each works until its context ends

	publicURL                   *url.URL
	public, ops                 *http.Server
	connections                 *httpkit.Connections // of public
	publicListener, opsListener net.Listener
}

// wire listens and creates everything that runs. What may fail comes first, so that a failure leaves nothing to undo
// but the listeners, which end with the process.
func (s *service) wire(ctx context.Context, c *serveCommand) (err error) {
	if s.publicListener, err = listen(ctx, c.Listen); err != nil {
		return err
	}
	if s.opsListener, err = listen(ctx, c.OpsListen); err != nil {
		return err
	}
	if s.publicURL, err = publicURL(c.PublicURL, s.publicListener.Addr()); err != nil {
		return err
	}

	// Beside the requests.
	pools := s.db.pools
	s.wake = eventlog.NewWake()
	s.background = append(s.background, s.db.watch, s.notify,
		s.forgetKeys, s.saveUsage)
	if !c.PauseProjections {
		if s.runner, err = projections.NewRunner(projections.Config{
			Pool: pools.General, Wake: s.wake, Logger: s.logger,
		}); err != nil {
			return err
		}
		s.background = append(s.background, func(ctx context.Context) {
			rebuild.Watch(ctx, rebuild.UpgradeConfig{Pool: pools.General, Now: s.now, Logger: s.logger})
		})
	}
	s.ledgerMetrics = ledger.NewMetrics()
	if !c.PauseProjections && !c.Ledger.Pause {
		if err := s.workOnLedger(ctx, &c.Ledger, c.DataDir); err != nil {
			return err
		}
	}

	// Requests.
	s.keys = access.New(pools.Access, s.now)
	s.limiter = ratelimit.New(pools.Limits, s.now)
	committed := committer.NewMetrics()
	s.committer = committer.New(committer.Config{ //nolint:contextcheck // a batch serves many requests and outlives each of them
		Pool: pools.Append, Permits: s.limiter, Logger: s.logger, Metrics: committed, Lanes: c.Lanes,
		Timeout: c.RequestTimeout * 4 / 5, Committed: s.wake.Signal,
	})
	readers := httpkit.NewReaders("public", c.Readers, 0, c.RequestTimeout)
	staff := httpkit.NewReaders("staff", staffRequests, staffAnswers, c.RequestTimeout)
	streams := httpkit.NewReaders("streams", auditorStreams, 0, c.RequestTimeout)
	requests, outcomes := httpkit.NewMetrics(), commands.NewOutcomes()
	kit := s.newKit(c.RequestTimeout, readers, staff)
	s.public = newServer(s.publicHandler(kit, streams, requests, outcomes), s.logger, publicWriteTimeout)
	s.connections = httpkit.NewConnections(c.Connections)
	registry := s.metrics(requests, outcomes, committed, readers, staff, streams, s.connections)
	s.ops = newServer(s.opsHandler(registry), s.logger, opsWriteTimeout)
	return nil
}

// How many requests of staff and auditors are answered at a time, how many of these answers are made at a time, and how
// many streams of the history are open at a time: each may hold half a megabyte.
const (
	staffRequests  = 64
	staffAnswers   = 4
	auditorStreams = 100
)

// publicURL is what URLs in answers begin with.
func publicURL(flag string, listening net.Addr) (*url.URL, error) {
	if flag == "" {
		address := listening.String()
		if tcp, ok := listening.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
			// Nobody can follow a link to "all addresses".
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

// metrics returns everything that an operator may want to see: the metrics of the requests and those of the process.
func (s *service) metrics(requests ...prometheus.Collector) *prometheus.Registry {
	b := thisBuild()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "novelgate_build_info", Help: "What this process was built from; always 1.",
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit, "go": b.Go},
	})
	info.Set(1)
	registry := prometheus.NewRegistry()
	registry.MustRegister(requests...)
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		info,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "novelgate_committer_queue_commands", Help: "Commands that wait for their lane.",
		}, func() float64 { return float64(s.committer.QueueDepth()) }),
		database.NewPoolCollector(s.db.pools),
		database.NewReadyCollector(s.probe),
		projections.NewCollector(s.db.pools.General, s.now),
		s.ledgerMetrics,
		ledger.NewCollector(s.db.pools.Ledger, s.now),
	)
	return registry
}

// notify tells other replicas of appends.
func (s *service) notify(ctx context.Context) { s.wake.Notify(ctx, s.db.pools.General, s.logger) }

// forgetKeys empties the cache of keys when a replica changes one.
func (s *service) forgetKeys(ctx context.Context) {
	database.Listen(ctx, s.db.pools.General.Config().ConnConfig, s.logger,
		map[string]func(string){access.Channel: func(string) { s.keys.Forget() }})
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

// run starts everything, says where it listens, and works until ctx ends. Then it drains.
func (s *service) run(ctx context.Context, out streams) error {
	group, groupCtx := errgroup.WithContext(ctx)
	for _, work := range s.background {
		group.Go(func() error { work(groupCtx); return nil })
	}
	if s.runner != nil {
		group.Go(func() error { return s.runner.Run(groupCtx) })
	}
	group.Go(func() error { return served(s.opsListener, s.ops.Serve(s.opsListener)) })
	group.Go(func() error { return served(s.publicListener, s.connections.Serve(s.public, s.publicListener)) })

	fmt.Fprintf(out.stdout, "Novelgate is listening on http://%s\n", s.publicListener.Addr())
	fmt.Fprintf(out.stdout, "Operations (metrics, health, pprof) on http://%s\n", s.opsListener.Addr())
	s.welcome(ctx, out)

	group.Go(func() error {
		<-groupCtx.Done()
		signal.Reset(os.Interrupt) // another Ctrl-C ends the process at once
		s.logger.InfoContext(ctx, "shutting down: answering what was accepted")
		s.drain(context.WithoutCancel(ctx))
		return nil
	})
	if err := group.Wait(); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	s.logger.InfoContext(ctx, "stopped")
	return nil
}

// drainTimeout is how long a shutdown waits for requests that are being answered.
const drainTimeout = 20 * time.Second

// goodbyeTime is how long requests on open connections are still taken after the listener is closed.
const goodbyeTime = 200 * time.Millisecond

// drain stops intake, answers what was accepted, and stops the rest.
func (s *service) drain(ctx context.Context) {
	s.draining.Store(true)
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	// Once Shutdown has begun, net/http drops requests that it reads then without an answer. So first no new connection
	// is accepted, and requests on those that are open get an answer that closes the connection.
	s.publicListener.Close() //nolint:errcheck // the server closes it again
	time.Sleep(goodbyeTime)
	if err := s.public.Shutdown(ctx); err != nil {
		s.logger.WarnContext(ctx, "requests were cut off", slog.Any("error", err))
		s.public.Close() //nolint:errcheck // it is being given up
	}
	s.committer.Close()
	s.limiter.Close()
	if err := s.keys.SaveUsage(ctx); err != nil {
		s.logger.WarnContext(ctx, "last use of keys not saved", slog.Any("error", err))
	}
	if err := s.ops.Shutdown(ctx); err != nil {
		s.ops.Close() //nolint:errcheck // it is being given up
	}
}

// sayGoodbye makes answers during the drain close their connections.
func (s *service) sayGoodbye(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// readTimeout is how long a request may take to arrive.
const readTimeout = 15 * time.Second

// How long a request may take from the end of its header until its answer is sent. Readers have less (httpkit.Readers),
// and streams of auditors set a time of their own for each part.
const (
	publicWriteTimeout = 2 * readTimeout
	opsWriteTimeout    = 60 * time.Second // a profile takes 30 s
)

// newServer returns an HTTP server whose time-outs keep slow clients from holding connections.
func newServer(handler http.Handler, logger *slog.Logger, writeTimeout time.Duration) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return listener, nil
}

// served says how the serving of a listener has ended: drain shuts the server down or closes the listener.
func served(listener net.Listener, err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("serve %s: %w", listener.Addr(), err)
}
