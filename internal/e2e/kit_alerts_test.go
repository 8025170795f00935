package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"novelgate/internal/testdb"
)

// monitor is a Prometheus server that scrapes a service, and evaluates deploy/prometheus/rules.yaml.
type monitor struct {
	*process

	url string
}

// alertTimes are the times in the rules that a monitor divides: durations in minutes, and limits of lags and ages.
var alertTimes = regexp.MustCompile(`\b\d+m\b|_(lag|age)_seconds\) > \d+`)

// startMonitor starts a monitor of the operators' address of a service, in which a minute of the rules lasts
// minute. Without Prometheus the test is skipped.
func startMonitor(t testing.TB, opsURL string, minute time.Duration) *monitor {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus is not installed: .ci/run installs it with apt-get")
	}
	dir := t.TempDir()
	rules := testdb.Must(os.ReadFile("../../deploy/prometheus/rules.yaml"))(t)
	scaled := alertTimes.ReplaceAllStringFunc(string(rules), func(found string) string {
		before, seconds, isLimit := strings.Cut(found, "> ")
		if isLimit {
			limit := testdb.Must(strconv.ParseFloat(seconds, 64))(t)
			return fmt.Sprint(before, "> ", limit*minute.Minutes())
		}
		minutes := testdb.Must(strconv.Atoi(strings.TrimSuffix(found, "m")))(t)
		return fmt.Sprint((time.Duration(minutes) * minute).Milliseconds(), "ms")
	})
	config := fmt.Sprintf("global: {scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms}\n"+
		"rule_files: [rules.yaml]\nscrape_configs: [{job_name: novelgate, static_configs: [{targets: [%q]}]}]\n",
		strings.TrimPrefix(opsURL, "http://"))
	for name, content := range map[string]string{"rules.yaml": scaled, "prometheus.yaml": config} {
		testdb.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	address := fmt.Sprint("127.0.0.1:", testdb.ReservePort(t))
	p := launchProgram(t, program, "--config.file="+filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn")
	return &monitor{p, "http://" + address}
}

// ask returns the label of each series in the result of a query; none while Prometheus starts.
func (m *monitor) ask(t testing.TB, query, label string) (found []string) {
	t.Helper()
	select {
	case <-m.exited:
		t.Fatalf("prometheus has ended\n%s", m.stderr)
	default:
	}
	service := Attach(m.url + "/api/v1/query?query=" + url.QueryEscape(query))
	response, err := service.do(t.Context(), Request{Closing: true})
	if err != nil || response.Status == 503 {
		return nil
	}
	var answer struct {
		Data struct {
			Result []struct{ Metric map[string]string }
		}
	}
	if err := json.Unmarshal(response.Body, &answer); err != nil || response.Status != 200 {
		t.Fatalf("%s: %d, %v\n%s", query, response.Status, err, response.Body)
	}
	for _, series := range answer.Data.Result {
		found = append(found, series.Metric[label])
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// firing returns the alerts that fire at present.
func (m *monitor) firing(t testing.TB) []string {
	t.Helper()
	return m.ask(t, `ALERTS{alertstate="firing"}`, "alertname")
}

// awaitFiring waits until each of these alerts has fired.
func (m *monitor) awaitFiring(t testing.TB, alerts ...string) {
	t.Helper()
	missing := slices.Clone(alerts)
	defer func() {
		if len(missing) > 0 {
			t.Logf("not firing: %v", missing)
		}
	}()
	testdb.Eventually(t, "the alerts fire", func() bool {
		firing := m.firing(t)
		missing = slices.DeleteFunc(missing, func(alert string) bool { return slices.Contains(firing, alert) })
		return len(missing) == 0
	})
}

// awaitSilence waits until no alert fires, and the service is scraped.
func (m *monitor) awaitSilence(t testing.TB) {
	t.Helper()
	var firing []string
	defer func() {
		if len(firing) > 0 {
			t.Logf("still firing: %v", firing)
		}
	}()
	testdb.Eventually(t, "the alerts end", func() bool {
		firing = m.firing(t)
		return len(firing) == 0 && len(m.ask(t, "novelgate_build_info", "job")) > 0
	})
}

// wantSilent waits for a number of scrapes, and expects that no alert fires at any of them.
func (m *monitor) wantSilent(t testing.TB, scrapes int) {
	t.Helper()
	query := fmt.Sprintf(`count_over_time(novelgate_build_info[1h]) >= %d`, scrapes)
	testdb.Eventually(t, fmt.Sprint(scrapes, " scrapes"), func() bool { return len(m.ask(t, query, "job")) > 0 })
	if fired := m.ask(t, `max_over_time(ALERTS{alertstate="firing"}[1h])`, "alertname"); len(fired) > 0 {
		t.Errorf("alerts of a healthy service: %v", fired)
	}
}

// wantCleanMetrics checks names and help of the metrics of a service with promtool.
func wantCleanMetrics(t testing.TB, s *Service) {
	t.Helper()
	check := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	check.Stdin = strings.NewReader(s.metrics(t))
	if said, err := check.CombinedOutput(); err != nil || len(said) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, said)
	}
}
