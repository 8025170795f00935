package testdb

import "github.com/prometheus/client_golang/prometheus"

// Metrics returns the values of a collector's gauges and counters by name and label values: "name value value".
func Metrics(t Failer, collector prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	NoError(t, registry.Register(collector))
	values := map[string]float64{}
	for _, family := range Must(registry.Gather())(t) {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetValue()
			}
			values[name] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
		}
	}
	return values
}

// Metric returns one of Metrics, which must exist.
func Metric(t Failer, collector prometheus.Collector, name string) float64 {
	t.Helper()
	value, ok := Metrics(t, collector)[name]
	if !ok {
		t.Fatal("no metric is called ", name)
	}
	return value
}
