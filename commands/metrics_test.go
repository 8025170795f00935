package commands_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// series returns every counter by its name and labels.
func series(t testing.TB, metrics ...prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				if label.GetValue() != "" {
					name += " " + label.GetName() + "=" + label.GetValue()
				}
			}
			found[name] = metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return found
}

// TestMetricsStaySmall sends what a scanner sends: no part of it becomes a label.
func TestMetricsStaySmall(t *testing.T) {
	t.Parallel()
	handler, metrics := serve(t, newFake())
	for i := range 100 {
		send(t, handler, http.MethodGet, fmt.Sprintf("/path-%d", i), "")
		send(t, handler, http.MethodGet, fmt.Sprintf("%s/%d", novelPath, i), "")
		send(t, handler, fmt.Sprintf("METHOD%d", i), novelPath, "")
		send(t, handler, http.MethodPost, fmt.Sprintf("%s?query=%d", postPath, i), postBody, "Idempotency-Key",
			fmt.Sprint("key-", i))
		send(t, handler, http.MethodPost, novelPath, fmt.Sprintf(`{"novel":%d}`, i))
		send(t, handler, http.MethodPost, novelPath, novelBody, "X-Request-Id", fmt.Sprint(i))
	}
	found := series(t, metrics...)
	if len(found) > 20 {
		t.Errorf("%d series: %v", len(found), found)
	}
	total := 0.0
	for name, n := range found {
		if strings.HasPrefix(name, "novelgate_http_requests_total") {
			total += n
		}
	}
	if total != 600 {
		t.Errorf("%v of 600 requests were counted: %v", total, found)
	}
	for name, want := range map[string]float64{
		"novelgate_commands_total operation=posts outcome=created":          100,
		"novelgate_commands_total operation=novels outcome=created":         100,
		"novelgate_commands_total operation=novels outcome=invalid_request": 100,
	} {
		if found[name] != want {
			t.Errorf("%s is %v, want %v", name, found[name], want)
		}
	}
}
