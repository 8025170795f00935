package database

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// NewPoolCollector returns a collector that exports the state of the pools to Prometheus.
func NewPoolCollector(pools *Pools) prometheus.Collector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("novelgate_pool_"+name, help, []string{"pool"}, nil)
	}
	acquired, idle := desc("acquired_connections", "Connections in use."),
		desc("idle_connections", "Connections that wait to be used.")
	total, limit := desc("connections", "Open connections."),
		desc("max_connections", "Most connections that the pool opens.")
	acquires, waits := desc("acquires_total", "Connections taken from the pool."),
		desc("waits_total", "Acquires that had to wait for a connection.")
	waitSeconds := desc("acquire_seconds_total", "Time that acquires have taken.")
	return prometheus.CollectorFunc(func(metrics chan<- prometheus.Metric) {
		for name, pool := range pools.Named() {
			send := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64) {
				metrics <- prometheus.MustNewConstMetric(desc, kind, value, name)
			}
			stat := pool.Stat()
			send(acquired, prometheus.GaugeValue, float64(stat.AcquiredConns()))
			send(idle, prometheus.GaugeValue, float64(stat.IdleConns()))
			send(total, prometheus.GaugeValue, float64(stat.TotalConns()))
			send(limit, prometheus.GaugeValue, float64(stat.MaxConns()))
			send(acquires, prometheus.CounterValue, float64(stat.AcquireCount()))
			send(waits, prometheus.CounterValue, float64(stat.EmptyAcquireCount()))
			send(waitSeconds, prometheus.CounterValue, stat.AcquireDuration().Seconds())
		}
	})
}

// BoolValue returns the value of a gauge that reports whether something holds: 1 or 0.
func BoolValue(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

// ScrapeCache caches a value for metrics, which it reads from the database at most once a second, at any rate of
// scrapes. It is safe for concurrent use.
type ScrapeCache[T any] struct {
	clock func() time.Time
	read  func(context.Context) (T, error)

	mu    sync.Mutex
	at    time.Time
	value T
	err   error
}

// NewScrapeCache returns a cache of the value that read returns, with a time-out of two seconds.
func NewScrapeCache[T any](clock func() time.Time, read func(context.Context) (T, error)) *ScrapeCache[T] {
	return &ScrapeCache[T]{clock: clock, read: read}
}

// Get returns the value, or the error of reading it.
func (r *ScrapeCache[T]) Get() (T, error) {
	const timeout, age = 2 * time.Second, time.Second
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.clock(); r.at.IsZero() || now.Sub(r.at) >= age || now.Before(r.at) {
		// A scrape has no context.
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		r.value, r.err = r.read(ctx)
		r.at = r.clock()
	}
	return r.value, r.err
}
