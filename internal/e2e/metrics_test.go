package e2e_test

import (
	"flag"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"novelgate/events/ledger/ledgertest"
	"novelgate/events/relay/relaytest"
	"novelgate/internal/testdb"
)

var update = flag.Bool("update", false, "add new metrics to testdata/metrics.txt")

// TestMetrics: a service that has everything has the metrics of testdata/metrics.txt, with their types and labels.
func TestMetrics(t *testing.T) {
	t.Parallel()
	nats, witness := relaytest.New(t, 1), ledgertest.NewWitness(t, "one", "ledger.example/another")
	s := Start(t, testdb.New(t), "--relay", nats.URL(), "--relay-replicas", "1", "--webhook-allow-cidr", "127.0.0.1/32",
		"--ledger-witness", witness.URL.String(), "--ledger-witness-key", witness.VerifierKey)
	ada, p := s.NewStaff(t), s.NewImporter(t)
	p.NewWebhook(t, fmt.Sprintf("http://127.0.0.1:%d", testdb.ReservePort(t)))
	novel := p.Upsert(t, Key(), Fields{"novel": Unique("Measured")}).WantNovel(t, 201)
	p.Bulk(t, PostLine(t, Key(), Comment(Unique("Measured"))))
	ada.Reject(t, novel.NovelID)
	p.Import(t, Key(), Fields{})
	var text string
	testdb.Eventually(t, "the webhook and the witness are counted", func() bool {
		text = s.metrics(t)
		return strings.Contains(text, "\nnovelgate_webhook_attempts_total{") &&
			strings.Contains(text, "\nnovelgate_ledger_witness_failures_total{")
	})
	var lines []string
	var family string
	label := regexp.MustCompile(`[{,](\w+)="`)
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			family, _, _ = strings.Cut(rest, " ")
			line = strings.TrimSpace(rest)
		}
		switch {
		case !strings.HasPrefix(family, "novelgate_"), strings.HasPrefix(line, "# "):
		case strings.HasPrefix(line, family+" ") && !strings.HasSuffix(line, "\n"):
			lines = append(lines, line)
		default:
			for _, match := range label.FindAllStringSubmatch(line, -1) {
				if match[1] != "le" {
					lines = append(lines, family+"{"+match[1]+"}")
				}
			}
		}
	}
	testdb.Kept(t, "testdata/metrics.txt", lines, *update)
}
