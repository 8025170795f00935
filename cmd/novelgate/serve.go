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
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"novelgate/commands/committer"
)

// ServeCommand is `novelgate serve`.
type ServeCommand struct {
	DatabaseFlags
	Listen                string        `env:"NOVELGATE_LISTEN" default:"127.0.0.1:8080" placeholder:"ADDRESS" help:"Where partners and readers connect; port 0 takes a free one (default: ${default})."`
	OpsListen             string        `name:"ops-listen" env:"NOVELGATE_OPS_LISTEN" default:"127.0.0.1:8081" placeholder:"ADDRESS" help:"Where operators connect: /metrics, /healthz, /readyz, /debug/pprof/ (default: ${default})."`
	PublicURL             string        `name:"public-url" env:"NOVELGATE_PUBLIC_URL" placeholder:"URL" help:"What the URLs in answers begin with (default: the listening address). The same for all replicas."`
	RequestTimeout        time.Duration `name:"request-timeout" env:"NOVELGATE_REQUEST_TIMEOUT" default:"1900ms" help:"Within which a request is answered once its body has arrived, with 503 if need be."`
	Lanes                 int           `env:"NOVELGATE_LANES" default:"0" placeholder:"N" help:"Batches of commands in flight at a time (default: one for every two processors, at least 2)."`
	Readers               int           `env:"NOVELGATE_READERS" default:"32" placeholder:"N" help:"Requests of readers (pages, their JSON, the ledger) that are answered at a time; more get 503 (default: ${default})."`
	PauseProjections      bool          `name:"pause-projections" env:"NOVELGATE_PAUSE_PROJECTIONS" help:"Do not run the asynchronous projections in this process, nor seal."`
	Ledger                LedgerFlags   `embed:""`
	AllowUnsafeDurability bool          `name:"allow-unsafe-durability" env:"NOVELGATE_ALLOW_UNSAFE_DURABILITY" help:"Start on a database that may lose acknowledged commands in a crash (fsync, synchronous_commit or full_page_writes off)."`
	LogLevel              logLevel      `name:"log-level" env:"NOVELGATE_LOG_LEVEL" default:"info" placeholder:"LEVEL" help:"debug, info, warn or error (default: ${default})."`
}

// drainTimeout is how long a shutdown waits for requests that are being answered.
const drainTimeout = 20 * time.Second

// gcPercent lets the heap grow to several times what is live before it is collected. Little is live, and every request
// allocates: at Go's default the collector takes a quarter of the CPU. GOGC overrides it. While a projection catches up
// more is live: from memoryLimit on, in bytes, it is collected more often, which costs less than new pages do.
// GOMEMLIMIT overrides that.
const (
	gcPercent   = 800
	memoryLimit = 256 << 20
)

// memProfileRate is how many bytes are allocated, on average, for each stack that the heap profile records: a request
// allocates so much that one in thirty has its stack walked at Go's default, half a megabyte.
const memProfileRate = 8 << 20

func collectRarely() {
	runtime.MemProfileRate = memProfileRate
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}

// Validate refuses values that make no sense; kong calls it.
func (c *ServeCommand) Validate() error {
	if c.Lanes < 0 {
		return errors.New("--lanes must not be negative")
	}
	if c.Readers < 1 {
		return errors.New("--readers must be at least 1")
	}
	c.Lanes = cmp.Or(c.Lanes, committer.DefaultLanes())
	if c.RequestTimeout < minRequestTimeout {
		return fmt.Errorf("--request-timeout must be at least %v", minRequestTimeout)
	}
	return c.Ledger.validate()
}

// minRequestTimeout leaves a commit time to happen.
const minRequestTimeout = 100 * time.Millisecond

// Run serves until a signal comes or something that it cannot do without fails.
func (c *ServeCommand) Run(in *invocation) error {
	logger := slog.New(slog.NewTextHandler(in.stderr, &slog.HandlerOptions{Level: slog.Level(c.LogLevel)}))
	collectRarely()
	ctx, cancel := context.WithCancel(in.ctx)
	defer cancel()

	db, err := c.openDatabase(ctx, logger)
	if err != nil {
		return err
	}
	// The last thing to stop: everything else uses it.
	defer db.stop(context.WithoutCancel(ctx), logger)

	s, err := c.newService(ctx, in, logger, db)
	if err != nil {
		return err
	}
	defer s.close()
	return s.run(ctx, in, db)
}

// run listens, says so, and works until ctx ends.
func (s *service) run(ctx context.Context, in *invocation, db *databaseServer) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return db.watch(groupCtx, s.logger) })
	s.startBackground(groupCtx, group)
	group.Go(func() error { return serveHTTP(s.ops, s.opsListener) })
	group.Go(func() error { return serveHTTP(s.public, s.publicListener) })

	fmt.Fprintf(in.stdout, "Novelgate is listening on http://%s\n", s.publicListener.Addr())
	fmt.Fprintf(in.stdout, "Operations (metrics, health, pprof) on http://%s\n", s.opsListener.Addr())
	first, err := s.offerDemo(ctx, in, db)
	if err != nil {
		s.logger.WarnContext(ctx, "no demo integration", slog.Any("error", err))
	}
	if err := s.offerStaffKey(ctx, in, db, first); err != nil {
		s.logger.WarnContext(ctx, "whether staff has a key is unknown", slog.Any("error", err))
	}

	group.Go(func() error {
		<-groupCtx.Done()
		in.stopSignals()
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

// goodbyeTime is how long requests on open connections are still taken after the listener is closed.
const goodbyeTime = 200 * time.Millisecond

// drain stops intake, answers what was accepted, and stops the rest.
func (s *service) drain(ctx context.Context) {
	s.draining.Store(true)
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	// Once Shutdown has begun, net/http drops requests that it reads then without an answer. So first nobody new is let
	// in, and those who are there get an answer that says goodbye.
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

// serveHTTP serves until the server is shut down or its listener is closed, both of which drain does.
func serveHTTP(server *http.Server, listener net.Listener) error {
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	}
	return nil
}

// readTimeout is how long a request may take to arrive.
const readTimeout = 15 * time.Second

// How long a request may take from the end of its header until its answer is sent. Readers have less (answer.Readers),
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

// publicURL is what URLs in answers begin with.
func (c *ServeCommand) publicURL(listener net.Listener) (*url.URL, error) {
	if c.PublicURL == "" {
		address := listener.Addr().String()
		if tcp, ok := listener.Addr().(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
			// Listening everywhere is no address that anybody could follow.
			address = net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
		}
		return &url.URL{Scheme: "http", Host: address}, nil
	}
	u, err := url.Parse(strings.TrimRight(c.PublicURL, "/"))
	if err != nil {
		return nil, fmt.Errorf("--public-url: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("--public-url: %q is not an http or https address without query and fragment", c.PublicURL)
	}
	return u, nil
}
