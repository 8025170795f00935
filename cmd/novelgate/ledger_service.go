package main

import (
	"context"
	"fmt"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"novelgate/events/eventlog"
	"novelgate/events/ledger"
)

// ledgerService is what works on the ledger in the background.
type ledgerService struct {
	metrics    *ledger.Metrics
	sealer     *ledger.Sealer
	signer     *ledger.Signer // nil in a replica without the key
	publishers []*ledger.Publisher
}

// newLedger wires sealing, signing and publishing. A replica that cannot sign says so and does the rest.
func (c *ServeCommand) newLedger(
	ctx context.Context, in *invocation, s *service, wake *eventlog.Wake,
) (*ledgerService, error) {
	l := &ledgerService{metrics: ledger.NewMetrics()}
	if c.PauseProjections || c.Ledger.Pause {
		return l, nil
	}
	pool := s.db.pools.Ledger
	var err error
	if l.sealer, err = ledger.NewSealer(ledger.SealerConfig{
		Pool: pool, Wake: wake, Metrics: l.metrics, Clock: in.now, Logger: s.logger,
	}); err != nil {
		return nil, fmt.Errorf("create sealer: %w", err)
	}
	file := ledgerKeyFile(c.Ledger.Key, c.DataDir)
	id, err := ledger.Identify(ctx, pool, ledger.IdentityConfig{
		Origin: c.Ledger.Origin, DefaultOrigin: defaultOrigin(s.publicURL), KeyFile: file,
		Memory: ledgerMemory(c.Ledger.Memory, file),
	})
	if err != nil {
		return nil, fmt.Errorf("start the ledger: %w", err)
	}
	if id.Started && id.Previous != "" {
		s.logger.WarnContext(ctx, "the ledger is signed under a new origin from now on", slog.String("origin", id.Origin),
			slog.String("previous", id.Previous))
	}
	if ledger.ReadableByOthers(file) {
		s.logger.WarnContext(ctx, "others can read the private key of the ledger", slog.String("file", file))
	}
	if l.signer, err = ledger.NewSigner(ledger.SignerConfig{
		Pool: pool, Identity: id, Metrics: l.metrics, Logger: s.logger,
	}); err != nil {
		s.logger.WarnContext(ctx, "this replica seals but does not sign", slog.Any("reason", err))
	}
	return l, l.addPublishers(&c.Ledger, s, id.Origin)
}

func (l *ledgerService) addPublishers(flags *LedgerFlags, s *service, origin string) error {
	pool := s.db.pools.Ledger
	var targets []ledger.Target
	if flags.PublishDir != "" {
		targets = append(targets, ledger.NewDirectory(pool, flags.PublishDir))
	}
	if flags.PublishURL != nil {
		targets = append(targets, ledger.NewEndpoint(pool, flags.PublishMethod, flags.PublishURL))
	}
	for _, target := range targets {
		publisher, err := ledger.NewPublisher(ledger.PublisherConfig{
			Pool: pool, Origin: origin, Target: target, Metrics: l.metrics, Logger: s.logger,
		})
		if err != nil {
			return fmt.Errorf("create publisher: %w", err)
		}
		l.publishers = append(l.publishers, publisher)
	}
	return nil
}

// start runs everything until ctx ends.
func (l *ledgerService) start(ctx context.Context, group *errgroup.Group) {
	run := func(work func(context.Context)) {
		group.Go(func() error { work(ctx); return nil })
	}
	if l.sealer != nil {
		run(l.sealer.Run)
	}
	if l.signer != nil {
		run(l.signer.Run)
	}
	for _, publisher := range l.publishers {
		run(publisher.Run)
	}
}
