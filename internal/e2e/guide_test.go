package e2e_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	problems "novelgate/internal/problem"
	"novelgate/internal/testdb"
)

// TestGuideForPartners runs the commands of docs/partners.md, one after the other, and compares its table of errors
// with the codes that there are.
func TestGuideForPartners(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/partners.md")
	if err != nil {
		t.Fatal(err)
	}
	s := Start(t, testdb.New(t))
	p := s.NewPartner(t)
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 6 {
		t.Fatalf("%d commands", len(blocks))
	}
	for _, block := range blocks {
		command := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", block[1])
		command.Env = append(os.Environ(), "NOVELGATE="+s.URL, "KEY="+p.APIKey)
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s\n%s", err, block[1], out)
		}
	}
	for _, code := range problems.All() {
		if !strings.Contains(string(text), "\n| `"+string(code)+"` | ") {
			t.Errorf("the table of errors lacks %s", code)
		}
	}
}
