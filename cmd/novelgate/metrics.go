package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"novelgate/events/ledger"
	"novelgate/internal/database"
	"novelgate/projections"
)

// registerMetrics tells the registry about everything that an operator may want to see.
func registerMetrics(
	registry *prometheus.Registry, s *service, now func() time.Time, others ...prometheus.Collector,
) {
	b := thisBuild()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "novelgate_build_info", Help: "What this process was built from; always 1.",
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit, "go": b.Go},
	})
	info.Set(1)
	registry.MustRegister(others...)
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		info,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "novelgate_committer_queue_commands", Help: "Commands that wait for their lane.",
		}, func() float64 { return float64(s.committer.QueueDepth()) }),
		database.NewPoolCollector(s.db.pools),
		database.NewReadyCollector(s.db.pools),
		projections.NewCollector(s.db.pools.General, now),
		s.ledger.metrics,
		ledger.NewCollector(s.db.pools.Ledger, now),
	)
}
