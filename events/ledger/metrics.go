package ledger

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"novelgate/internal/database"
)

// Metrics are the metrics of a Sealer, a Signer and Witnesses: a registry that other registries may
// include.
type Metrics struct {
	*prometheus.Registry

	sealSeconds     prometheus.Histogram
	waitSeconds     prometheus.Histogram
	sealedEvents    prometheus.Counter
	signatures      prometheus.Counter
	signer          prometheus.Gauge
	signingRefused  prometheus.Gauge
	witnessRefused  *prometheus.GaugeVec
	witnessSize     *prometheus.GaugeVec
	witnessFailures *prometheus.CounterVec
}

// NewMetrics returns metrics in a registry of their own, which the caller registers.
func NewMetrics() *Metrics {
	m := &Metrics{
		Registry: prometheus.NewRegistry(),
		sealSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "novelgate_ledger_seal_seconds", Help: "Time that storing one seal took.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 13),
		}),
		waitSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "novelgate_ledger_wait_seconds",
			Help:    "Time from the recording of the oldest event of a seal until it was stored.",
			Buckets: prometheus.ExponentialBuckets(0.01, 1.5, 18),
		}),
		sealedEvents: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "novelgate_ledger_sealed_events_total", Help: "Events that this process has sealed.",
		}),
		signatures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "novelgate_ledger_signed_checkpoints_total", Help: "Checkpoints that this process has signed.",
		}),
		signer: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "novelgate_ledger_signer",
			Help: "1 while this process can sign: it has the signer directory of the origin, and nothing else fails. 0 " +
				"while it only seals and serves.",
		}),
		signingRefused: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "novelgate_ledger_signing_refused",
			Help: "1 while this process refuses to sign: the tree does not extend what was signed, or its signer directory " +
				"must not sign.",
		}),
		witnessRefused: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "novelgate_ledger_witness_refused",
			Help: "1 while the witness has cosigned another history than that of the ledger.",
		}, []string{"target"}),
		witnessSize: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "novelgate_ledger_witness_size_entries",
			Help: "Entries of the newest checkpoint that the witness has cosigned.",
		}, []string{"target"}),
		witnessFailures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "novelgate_ledger_witness_failures_total",
			Help: "Attempts of this process to get a cosignature of the witness that failed.",
		}, []string{"target"}),
	}
	m.MustRegister(m.sealSeconds, m.waitSeconds, m.sealedEvents, m.signatures, m.signer, m.signingRefused,
		m.witnessRefused, m.witnessSize, m.witnessFailures)
	return m
}

// sealed records a stored batch, and when storing it began and ended.
func (m *Metrics) sealed(b *batch, began, ended time.Time) {
	m.sealSeconds.Observe(ended.Sub(began).Seconds())
	m.waitSeconds.Observe(ended.Sub(b.oldest).Seconds())
	m.sealedEvents.Add(float64(b.read.Read))
}

// Collector exports the state of the ledger to Prometheus. Scrapes within a second share one reading. If the database
// does not answer within two seconds, novelgate_ledger_up is 0 and the other metrics are absent.
type Collector struct {
	status *database.ScrapeCache[Status]

	up, size, unsealed, lag, failed, checkpointSize, checkpointAge, verified *prometheus.Desc
}

// NewCollector returns a collector that queries db. clock measures the age of a result.
func NewCollector(db database.Querier, clock func() time.Time) *Collector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("novelgate_ledger_"+name, help, nil, nil)
	}
	return &Collector{
		status:   database.NewScrapeCache(clock, func(ctx context.Context) (Status, error) { return ReadStatus(ctx, db) }),
		up:       desc("up", "Whether the state of the ledger could be read."),
		size:     desc("size_entries", "Entries in the Merkle tree."),
		unsealed: desc("unsealed_events", "Events that are not in the tree yet."),
		lag:      desc("lag_seconds", "Age of the oldest event that is not in the tree yet; 0 when there is none."),
		failed:   desc("failed", "1 while sealing cannot continue; `novelgate ledger status` says why."),
		checkpointSize: desc("checkpoint_size_entries",
			"Entries that the newest checkpoint covers; absent while nothing was signed."),
		checkpointAge: desc("checkpoint_age_seconds",
			"Time since the newest checkpoint was signed; it grows while there is nothing new to sign."),
		verified: prometheus.NewDesc("novelgate_events_verified_timestamp_seconds",
			"When `novelgate events verify` last succeeded on the database; before that, when the ledger began.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		c.up, c.size, c.unsealed, c.lag, c.failed, c.checkpointSize, c.checkpointAge, c.verified,
	} {
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
	gauge(c.failed, database.BoolValue(status.Error != nil))
	gauge(c.verified, float64(status.VerifiedAt.UnixMilli())/1000)
	if status.CheckpointSize != nil && status.CheckpointAge != nil {
		gauge(c.checkpointSize, float64(*status.CheckpointSize))
		gauge(c.checkpointAge, *status.CheckpointAge)
	}
}
