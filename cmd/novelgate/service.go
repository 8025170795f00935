package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
	"novelgate/events/relay"
	"novelgate/internal/database"
	"novelgate/internal/httpkit"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// service is a running serve command with all its parts.
type service struct {
	logger    *slog.Logger
	now       clock
	db        *databaseServer
	draining  atomic.Bool
	isSandbox bool
	publicURL *url.URL

	wake      *eventlog.Wake
	tail      *eventlog.Tail // nil without projections
	keys      *access.Keys
	limiter   *ratelimit.Limiter
	committer *committer.Committer
	imports   *imports.Worker
	webhooks  *webhooks.Worker
	partners  *commands.API

	background []func(context.Context)       // work until the service ends
	critical   []func(context.Context) error // work until the service ends; its error ends the service

	collectors    []prometheus.Collector // of the parts
	ledgerMetrics *ledger.Metrics
	relayMetrics  *relay.Metrics

	handler                     http.Handler // of all public routes
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

// wire creates all parts. What may fail comes before addCommands, which starts the committer: an error leaves nothing
// running.
func (s *service) wire(ctx context.Context, c *serveCommand) error {
	s.wake = eventlog.NewWake()
	s.ledgerMetrics, s.relayMetrics = ledger.NewMetrics(), relay.NewMetrics()
	s.collectors = append(s.collectors, s.ledgerMetrics, s.relayMetrics)
	s.background = append(s.background, s.db.watch)
	if s.db.isStandby {
		s.critical = append(s.critical, s.db.awaitPromotion)
	} else if err := s.addPrimaryWork(ctx, c); err != nil {
		return err
	}
	kit := s.newKit(c)
	s.addCommands(c, kit)
	s.handler = s.publicHandler(c.Site.site(s.now, s.isSandbox), kit)
	s.public = newServer(s.closeConnections(httpkit.WithRequestID(s.noIndex(s.handler))), s.logger, publicWriteTimeout)
	s.connections = httpkit.NewConnections(c.Connections)
	s.collectors = append(s.collectors, s.connections)
	s.ops = newServer(s.opsHandler(), s.logger, opsWriteTimeout)
	return nil
}

// addPrimaryWork adds the background work of a service on a primary, as opposed to a standby.
func (s *service) addPrimaryWork(ctx context.Context, c *serveCommand) error {
	s.background = append(s.background, s.notify, s.forgetKeys, s.saveUsageRegularly, s.announce)
	if !c.PauseProjections {
		if err := s.addProjections(); err != nil {
			return err
		}
		if !c.PauseLedger {
			if err := s.addLedger(ctx, &c.Ledger, c.DataDir); err != nil {
				return err
			}
		}
	}
	return s.addRelay(ctx, &c.Relay)
}

// addProjections adds the asynchronous projections, and the rebuilds after an upgrade.
func (s *service) addProjections() error {
	pools := s.db.pools
	s.tail = eventlog.NewTail(pools.General.Config().ConnConfig, 0)
	runner, err := projections.NewRunner(projections.Config{
		Pool: pools.General, Tail: s.tail, Wake: s.wake, Logger: s.logger,
	})
	if err != nil {
		return err
	}
	s.critical = append(s.critical, runner.Run)
	s.background = append(s.background, s.upgradeTables)
	return nil
}

// upgradeInterval is the time between checks for tables of an older generation.
const upgradeInterval = 5 * time.Second

// upgradeTables rebuilds tables of an older generation: after an upgrade, and after a failover or a restore has brought
// them back.
func (s *service) upgradeTables(ctx context.Context) {
	for more := true; more; more = eventlog.Sleep(ctx, upgradeInterval) {
		rebuild.Upgrade(ctx, rebuild.UpgradeConfig{Pool: s.db.pools.General, Now: s.now, Logger: s.logger})
	}
}

// addCommands creates the parts that execute the commands of requests and of bulk imports, and the worker that sends
// changes to webhooks.
func (s *service) addCommands(c *serveCommand, kit *httpkit.Kit) {
	pools, metrics := s.db.pools, committer.NewMetrics()
	s.keys = access.New(pools.Access, s.now)
	s.limiter = ratelimit.New(s.now)
	s.committer = committer.New(committer.Config{
		Pool: pools.Append, Limiter: s.limiter, Breaker: &eventlog.Breaker{Pool: pools.Access, Logger: s.logger},
		Logger: s.logger, Metrics: metrics,
		Timeout: c.RequestTimeout * 4 / 5, Committed: s.wake.Signal,
	})
	queued := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "novelgate_committer_queue_commands", Help: "Commands that wait for a batch.",
	}, func() float64 { return float64(s.committer.QueueDepth()) })
	s.imports = imports.NewWorker(&imports.Store{Pool: pools.General, Retention: c.ImportRetention})
	s.imports.Committer, s.imports.Limiter = s.committer, s.limiter
	s.imports.Now, s.imports.Logger, s.imports.Metrics = s.now, s.logger, imports.NewMetrics()
	s.imports.Addresses, s.imports.Problem = httpkit.NewAddresses(s.publicURL), kit.Problem
	s.webhooks = newWebhooks(s, &c.Webhooks)
	if !s.db.isStandby {
		s.background = append(s.background, s.imports.Run, s.webhooks.Run)
	}
	s.collectors = append(s.collectors, metrics, queued, s.imports.Metrics, s.webhooks.Metrics)
}

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
		return nil, fmt.Errorf("--public-url: %q is not an http or https address without query and fragment", u.Redacted())
	}
	return u, nil
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

func (s *service) saveUsageRegularly(ctx context.Context) {
	for eventlog.Sleep(ctx, usageInterval) {
		s.saveUsage(ctx)
	}
}

func (s *service) saveUsage(ctx context.Context) {
	if err := s.keys.SaveUsage(ctx); err != nil && !errors.Is(err, context.Canceled) {
		s.logger.WarnContext(ctx, "last use of keys not saved", slog.Any("error", err))
	}
}

// startWork runs the background and the critical work in group until ctx ends.
func (s *service) startWork(ctx context.Context, group *errgroup.Group) {
	for _, work := range s.background {
		group.Go(func() error { work(ctx); return nil })
	}
	for _, work := range s.critical {
		group.Go(func() error { return work(ctx) })
	}
}

// run starts all parts, prints the addresses, and runs until ctx ends or a part fails. Then it drains.
func (s *service) run(ctx context.Context, out streams) error {
	group, groupCtx := errgroup.WithContext(ctx)
	s.startWork(groupCtx, group)
	group.Go(func() error { return serveError(s.opsListener, s.ops.Serve(s.opsListener)) })
	group.Go(func() error { return serveError(s.publicListener, s.connections.Serve(s.public, s.publicListener)) })

	fmt.Fprintf(out.stdout, "Novelgate is listening on http://%s\n", s.publicListener.Addr())
	fmt.Fprintf(out.stdout, "Operations (metrics, health, pprof) on http://%s\n", s.opsListener.Addr())
	if !s.db.isStandby {
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
	s.finish(ctx)
	if err := s.ops.Shutdown(ctx); err != nil {
		s.ops.Close() //nolint:errcheck // drainTimeout has passed
	}
}

// finish stops the parts that commands need, after the last request.
func (s *service) finish(ctx context.Context) {
	s.committer.Close()
	if !s.db.isStandby {
		s.saveUsage(ctx)
	}
}
