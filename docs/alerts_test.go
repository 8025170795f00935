package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestAlerts: every alert is in the operators' page, has a severity and a runbook that exists, and reads metrics that
// the service has, like those of the dashboard.
func TestAlerts(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	for _, path := range files(t, ".go") {
		if !strings.HasSuffix(path, "_test.go") {
			code.Write(read(t, path))
		}
	}
	rules, page := string(read(t, "deploy/prometheus/rules.yaml")), string(read(t, "docs/operators.md"))
	dashboard := string(read(t, "deploy/grafana/novelgate.json"))
	for _, metric := range regexp.MustCompile(`novelgate_\w+`).FindAllString(rules+dashboard, -1) {
		metric = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(metric, "") // of a histogram
		// Some collectors write a common prefix once.
		rest := strings.TrimPrefix(metric, "novelgate_")
		if !slices.ContainsFunc([]string{metric, rest, strings.TrimPrefix(rest, "ledger_")}, func(name string) bool {
			return strings.Contains(code.String(), `"`+name+`"`)
		}) {
			t.Errorf("no metric %s", metric)
		}
	}
	alerts := strings.Split(rules, "- alert: ")[1:]
	for _, alert := range alerts {
		name, _, _ := strings.Cut(alert, "\n")
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/operators.md does not name %s", name)
		}
		if !regexp.MustCompile(`severity: (page|ticket)\b`).MatchString(alert) || !strings.Contains(alert, "summary: ") {
			t.Errorf("%s has no severity or no summary", name)
		}
		runbook := regexp.MustCompile(`runbook_url: (\S+)#(\S+)`).FindStringSubmatch(alert)
		if runbook == nil || !slices.Contains(anchors(read(t, runbook[1])), runbook[2]) {
			t.Errorf("%s has no runbook that exists: %v", name, runbook)
		}
	}
	for _, name := range regexp.MustCompile("`(Novelgate[A-Z]\\w+)`").FindAllStringSubmatch(page, -1) {
		if !strings.Contains(rules, "alert: "+name[1]+"\n") {
			t.Errorf("rules.yaml has no alert %s", name[1])
		}
	}
}
