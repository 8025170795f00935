package committer_test

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func (r *replica) conflicts() int { return r.counter("novelgate_committer_conflicts_total") }

func (r *replica) bisections() int { return r.counter("novelgate_committer_bisections_total") }

// counter reads one of the committer's counters.
func (r *replica) counter(name string) int {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r.metrics)
	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return int(value(family.GetMetric()[0]))
		}
	}
	panic("no metric " + name)
}

func value(m *dto.Metric) float64 { return m.GetCounter().GetValue() }
