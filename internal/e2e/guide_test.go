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

// readDocument returns a file in docs.
func readDocument(t testing.TB, name string) string {
	t.Helper()
	text := testdb.Must(os.ReadFile("../../docs/" + name))(t)
	return string(text)
}

// TestGuidesForPartners runs the commands of the guides, one after the other, and compares the table of errors with the
// codes that there are.
func TestGuidesForPartners(t *testing.T) {
	t.Parallel()
	s := Start(t, testdb.New(t), "--sandbox")
	p := s.NewPartner(t)
	var commands []string
	for _, guide := range []string{"partners.md", "changes.md"} {
		blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(readDocument(t, guide), -1)
		if len(blocks) == 0 {
			t.Errorf("%s has no commands", guide)
		}
		for _, block := range blocks {
			commands = append(commands, block[1])
		}
	}
	for _, text := range commands {
		command := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", text)
		command.Env = append(os.Environ(), "NOVELGATE_URL="+s.URL, "NOVELGATE_API_KEY="+p.APIKey)
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s\n%s", err, text, out)
		}
	}
	reference := readDocument(t, "partner-reference.md")
	for _, code := range problems.All() {
		if !strings.Contains(reference, "\n| `"+string(code)+"` | ") {
			t.Errorf("the table of errors lacks %s", code)
		}
	}
}

// TestGuidesShowProgramsThatAreTested: each program of the guides is an example of the client, or a file that `make
// generators` runs, with the same settings of the compiler.
func TestGuidesShowProgramsThatAreTested(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text := testdb.Must(os.ReadFile(name))(t)
		return string(text)
	}
	guide := readDocument(t, "partner-clients.md")
	if settings := read("generators/tsconfig.json"); !strings.Contains(guide, settings) {
		t.Errorf("the guide does not show these settings:\n%s", settings)
	}
	blocks := regexp.MustCompile("(?s)```(go|ts)\n(.*?)```").FindAllStringSubmatch(guide, -1)
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
