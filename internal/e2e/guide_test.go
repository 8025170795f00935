package e2e_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
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
	p, box := s.NewPartner(t), s.NewSandbox(t)
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 6 {
		t.Fatalf("%d commands", len(blocks))
	}
	for _, block := range blocks {
		command := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", block[1])
		command.Env = append(os.Environ(), "NOVELGATE_URL="+s.URL, "NOVELGATE_API_KEY="+p.APIKey,
			"SANDBOX_KEY="+box.APIKey)
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

// TestGuideShowsProgramsThatAreTested: each program of the guide is an example of the client, or a file that `make
// generators` runs, with the same settings of the compiler.
func TestGuideShowsProgramsThatAreTested(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if settings := read("generators/tsconfig.json"); !strings.Contains(read("../../docs/partners.md"), settings) {
		t.Errorf("the guide does not show these settings:\n%s", settings)
	}
	blocks := regexp.MustCompile("(?s)```(go|ts)\n(.*?)```").FindAllStringSubmatch(read("../../docs/partners.md"), -1)
	if len(blocks) != 4 {
		t.Errorf("%d programs", len(blocks))
	}
	programs := []string{read("generators/send.ts"), read("generators/changes.ts"), read("generators/webhook.ts")}
	examples := regexp.MustCompile(`(?m)^\t`).ReplaceAllString(read("../../client/example_test.go"), "")
	for _, block := range blocks {
		if block[1] == "go" && !strings.Contains(examples, block[2]) ||
			block[1] == "ts" && !slices.Contains(programs, block[2]) {
			t.Errorf("not tested:\n%s", block[2])
		}
	}
}
