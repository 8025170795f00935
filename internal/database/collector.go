package database

import "github.com/prometheus/client_golang/prometheus"

// PoolCollector exports the state of connection pools to Prometheus.
type PoolCollector struct {
	pools                        *Pools
	acquired, idle, total, limit *prometheus.Desc
	acquires, waits, waitSeconds *prometheus.Desc
}

// NewPoolCollector returns a collector over pools.
func NewPoolCollector(pools *Pools) *PoolCollector {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("novelgate_pool_"+name, help, []string{"pool"}, nil)
	}
	return &PoolCollector{
		pools:       pools,
		acquired:    desc("acquired_connections", "Connections in use."),
		idle:        desc("idle_connections", "Connections that wait to be used."),
		total:       desc("connections", "Open connections."),
		limit:       desc("max_connections", "Most connections that the pool opens."),
		acquires:    desc("acquires_total", "Connections taken from the pool."),
		waits:       desc("waits_total", "Acquires that had to wait for a connection."),
		waitSeconds: desc("acquire_seconds_total", "Time that acquires have taken."),
	}
}

// Describe implements prometheus.Collector.
func (c *PoolCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{c.acquired, c.idle, c.total, c.limit, c.acquires, c.waits, c.waitSeconds} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *PoolCollector) Collect(metrics chan<- prometheus.Metric) {
	for name, pool := range c.pools.Named() {
		stat := pool.Stat()
		for _, m := range []struct {
			desc  *prometheus.Desc
			kind  prometheus.ValueType
			value float64
		}{
			{c.acquired, prometheus.GaugeValue, float64(stat.AcquiredConns())},
			{c.idle, prometheus.GaugeValue, float64(stat.IdleConns())},
			{c.total, prometheus.GaugeValue, float64(stat.TotalConns())},
			{c.limit, prometheus.GaugeValue, float64(stat.MaxConns())},
			{c.acquires, prometheus.CounterValue, float64(stat.AcquireCount())},
			{c.waits, prometheus.CounterValue, float64(stat.EmptyAcquireCount())},
			{c.waitSeconds, prometheus.CounterValue, stat.AcquireDuration().Seconds()},
		} {
			metrics <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value, name)
		}
	}
}
