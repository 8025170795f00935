package projections

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"novelgate/internal/database"
)

// Collector exports the lag of the projections to Prometheus. Scrapes within a second of each other share one
// query; when the database does not answer within two, novelgate_projections_up is 0 and the rest is absent.
type Collector struct {
	list *database.ScrapeCache[[]Status]

	up, lagEvents, lagSeconds, failed, diverged, retrying, generation, rebuilt *prometheus.Desc
}

// NewCollector returns a collector that asks db. The clock tells how old an answer is.
func NewCollector(db database.Querier, clock func() time.Time) *Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("novelgate_"+name, help, labels, nil)
	}
	return &Collector{
		list: database.NewScrapeCache(clock, func(ctx context.Context) ([]Status, error) { return List(ctx, db) }),
		up:   desc("projections_up", "Whether the state of the projections could be read."),
		lagEvents: desc("projection_lag_events", "Settled events that the projection has not applied yet, at most 100000.",
			"projection"),
		lagSeconds: desc("projection_lag_seconds",
			"Age of the oldest settled event that the projection has not applied yet; 0 when there is none.", "projection"),
		failed: desc("projection_failed", "1 when the projection has stopped before an event that it cannot apply.",
			"projection"),
		diverged: desc("projection_diverged",
			"1 when the log does not have the last event that the projection has applied, until its tables are built anew.",
			"projection"),
		retrying: desc("projection_retrying",
			"1 while the projection does not go on for a reason that is no event's, and tries again.", "projection"),
		generation: desc("projection_generation", "Generation of the code that writes the live tables.", "projection"),
		rebuilt: desc("projection_rebuild_done",
			"Share of the log that a rebuild of the projection has read; absent when none is unfinished.", "projection"),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		c.up, c.lagEvents, c.lagSeconds, c.failed, c.diverged, c.retrying, c.generation, c.rebuilt,
	} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	list, err := c.list.Get()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	if err != nil {
		gauge(c.up, 0)
		return
	}
	gauge(c.up, 1)
	for i := range list {
		s := &list[i]
		gauge(c.lagEvents, float64(s.LagEvents), s.Name)
		gauge(c.lagSeconds, s.LagSeconds, s.Name)
		gauge(c.failed, truth(s.State == Failed), s.Name)
		gauge(c.diverged, truth(s.State == Diverged), s.Name)
		gauge(c.retrying, truth(s.State == Running && s.Error != nil), s.Name)
		gauge(c.generation, float64(s.Generation), s.Name)
		if s.Rebuild != nil {
			gauge(c.rebuilt, s.Rebuild.Share(), s.Name)
		}
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
