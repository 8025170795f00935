package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"novelgate/commands"
	"novelgate/commands/access"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/events/eventlog"
	"novelgate/internal/database"
	"novelgate/internal/httpkit"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// usageInterval is how often the last use of keys is written down.
const usageInterval = 30 * time.Second

// service is everything that serve runs, wired.
type service struct {
	logger   *slog.Logger
	now      func() time.Time
	db       *databaseServer
	draining atomic.Bool

	keys      *access.Keys
	limiter   *ratelimit.Limiter
	committer *committer.Committer
	runner    *projections.Runner // nil when the projections are paused
	notifier  *eventlog.Notifier
	ledger    *ledgerService
	wake      *eventlog.Wake

	publicURL                   *url.URL
	public, ops                 *http.Server
	publicListener, opsListener net.Listener
}

func (c *ServeCommand) newService(
	ctx context.Context, in *invocation, logger *slog.Logger, db *databaseServer,
) (_ *service, err error) {
	s := &service{logger: logger, now: in.now, db: db}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.publicListener, err = listen(ctx, c.Listen); err != nil {
		return nil, err
	}
	if s.opsListener, err = listen(ctx, c.OpsListen); err != nil {
		return nil, err
	}
	if s.publicURL, err = c.publicURL(s.publicListener); err != nil {
		return nil, err
	}

	s.wake = eventlog.NewWake()
	s.notifier = eventlog.NewNotifier(db.pools.General, s.wake, logger)
	s.keys = access.New(db.pools.Access, in.now)
	s.limiter = ratelimit.New(db.pools.Limits, in.now)
	committed := committer.NewMetrics()
	s.committer = committer.New(committer.Config{ //nolint:contextcheck // a batch serves many requests and outlives each of them
		Pool: db.pools.Append, Permits: s.limiter, Logger: logger, Metrics: committed, Lanes: c.Lanes,
		Timeout: c.RequestTimeout * 4 / 5, Committed: s.wake.Signal,
	})
	if !c.PauseProjections {
		if s.runner, err = projections.NewRunner(projections.Config{
			Pool: db.pools.General, Polls: db.pools.Polls, Wake: s.wake, Logger: logger,
		}); err != nil {
			return nil, err
		}
	}

	if s.ledger, err = c.newLedger(ctx, in, s, s.wake); err != nil {
		return nil, err
	}

	readers := httpkit.NewReaders(c.Readers, c.RequestTimeout)
	requests, outcomes := httpkit.NewMetrics(), commands.NewOutcomes()
	registry := prometheus.NewRegistry()
	registerMetrics(registry, s, in.now, requests, outcomes, committed, readers)
	s.public = newServer(s.publicHandler(s.newKit(c.RequestTimeout, readers), requests, outcomes), logger,
		publicWriteTimeout)
	s.ops = newServer(s.opsHandler(registry), logger, opsWriteTimeout)
	return s, nil
}

// startBackground runs what works beside the requests until ctx ends.
func (s *service) startBackground(ctx context.Context, group *errgroup.Group) {
	if s.runner != nil {
		group.Go(func() error { return s.runner.Run(ctx) })
		group.Go(func() error {
			rebuild.Watch(ctx, rebuild.UpgradeConfig{Pool: s.db.pools.General, Now: s.now, Logger: s.logger})
			return nil
		})
	}
	s.ledger.start(ctx, group)
	group.Go(func() error { s.notifier.Run(ctx); return nil })
	group.Go(func() error {
		database.Listen(ctx, s.db.pools.General.Config().ConnConfig, s.logger,
			map[string]func(string){access.Channel: func(string) { s.keys.Forget() }})
		return nil
	})
	group.Go(func() error {
		ticker := time.NewTicker(usageInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
				if err := s.keys.SaveUsage(ctx); err != nil && !errors.Is(err, context.Canceled) {
					s.logger.WarnContext(ctx, "last use of keys not saved", slog.Any("error", err))
				}
			}
		}
	})
}

// close frees what a start that failed, or a drain, has left.
func (s *service) close() {
	for _, listener := range []net.Listener{s.publicListener, s.opsListener} {
		if listener != nil {
			listener.Close() //nolint:errcheck // a server may have closed it before
		}
	}
	if s.committer != nil {
		s.committer.Close()
	}
	if s.limiter != nil {
		s.limiter.Close()
	}
}
