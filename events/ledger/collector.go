package ledger

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"novelgate/internal/database"
	"novelgate/internal/scrape"
)

// Collector exports how far the ledger has come to Prometheus. Scrapes within a second of each other share one query;
// when the database does not answer within two, novelgate_ledger_up is 0 and the rest is absent.
type Collector struct {
	status *scrape.Reading[Status]

	up, size, unsealed, lag, failed, checkpointSize, checkpointAge *prometheus.Desc
}

// NewCollector returns a collector that asks db. The clock tells how old an answer is.
func NewCollector(db database.Querier, clock func() time.Time) *Collector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("novelgate_ledger_"+name, help, nil, nil)
	}
	return &Collector{
		status:   scrape.New(clock, func(ctx context.Context) (Status, error) { return ReadStatus(ctx, db) }),
		up:       desc("up", "Whether the state of the ledger could be read."),
		size:     desc("size_entries", "Entries in the Merkle tree."),
		unsealed: desc("unsealed_events", "Settled events that are not in the tree yet, at most 100000."),
		lag: desc("lag_seconds",
			"Age of the oldest settled event that is not in the tree yet; 0 when there is none."),
		failed: desc("failed", "1 while sealing cannot go on; ledger status says why."),
		checkpointSize: desc("checkpoint_size_entries",
			"Entries that the newest checkpoint covers; absent while nothing was signed."),
		checkpointAge: desc("checkpoint_age_seconds",
			"Time since the newest checkpoint was signed; it grows while there is nothing new to sign."),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{c.up, c.size, c.unsealed, c.lag, c.failed, c.checkpointSize, c.checkpointAge} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	status, err := c.status.Get()
	gauge := func(desc *prometheus.Desc, value float64) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	if err != nil {
		gauge(c.up, 0)
		return
	}
	gauge(c.up, 1)
	gauge(c.size, float64(status.Size))
	gauge(c.unsealed, float64(status.UnsealedEvents))
	gauge(c.lag, status.LagSeconds)
	gauge(c.failed, truth(status.Error != nil))
	if status.CheckpointSize != nil && status.CheckpointAge != nil {
		gauge(c.checkpointSize, float64(*status.CheckpointSize))
		gauge(c.checkpointAge, *status.CheckpointAge)
	}
}
