package e2e_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"novelgate/internal/problem"
	"novelgate/internal/testdb"
)

// readDocument returns a file in docs.
func readDocument(t testing.TB, name string) string {
	t.Helper()
	text := testdb.Must(os.ReadFile("../../docs/" + name))(t)
	return string(text)
}

// TestGuideForPartners runs the commands of the guide, one after the other, and compares the table of errors with the
// codes that there are.
func TestGuideForPartners(t *testing.T) {
	t.Parallel()
	s := Start(t, testdb.New(t), "--sandbox")
	p := s.NewImporter(t)
	var commands []string
	guide := readDocument(t, "partners.md")
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(guide, -1) {
		commands = append(commands, block[1])
	}
	if len(commands) < 10 {
		t.Errorf("the guide has only the commands %q", commands)
	}
	dir := t.TempDir()
	for _, text := range commands {
		command := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", text)
		command.Env = append(os.Environ(), "NOVELGATE_URL="+s.URL, "NOVELGATE_API_KEY="+p.APIKey)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s\n%s", err, text, out)
		}
	}
	for _, code := range problem.All() {
		if !strings.Contains(guide, "\n| `"+string(code)+"` | ") {
			t.Errorf("the table of errors lacks %s", code)
		}
	}
}

// TestGuideOfClients: the program in Go is an example of the client, which has tests. The one in JavaScript delivers a
// comment once, although its first attempts fail; without node only the former is checked.
func TestGuideOfClients(t *testing.T) {
	t.Parallel()
	guide := readDocument(t, "partner-clients.md")
	program := func(language string) string {
		block := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindStringSubmatch(guide)
		if block == nil {
			t.Fatalf("the guide has no program in %s", language)
		}
		return block[1]
	}
	examples := string(testdb.Must(os.ReadFile("../../client/example_test.go"))(t))
	if examples = regexp.MustCompile(`(?m)^\t`).ReplaceAllString(examples, ""); !strings.Contains(examples, program("go")) {
		t.Errorf("no example of the client:\n%s", program("go"))
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	s := Shared(t)
	p := s.NewPartner(t)
	run := func(address, source string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		command := exec.CommandContext(ctx, node, "--input-type=module", "--eval", source)
		command.Env = append(os.Environ(), "NOVELGATE_URL="+address, "NOVELGATE_API_KEY="+p.APIKey)
		out, err := command.CombinedOutput()
		return string(out), err
	}
	said := ""
	for _, address := range []string{s.through(t, cutAfterRequest, cutInAnswer, refuseWith(503), refuseWith(429)), s.URL} {
		out, err := run(address, program("js"))
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		said += out
	}
	words := strings.Fields(said) // created, postId and url of each answer
	if len(words) != 6 || words[0] != "false" || words[3] != "false" || words[1] != words[4] {
		t.Errorf("it said\n%s", said)
	}
	changed := strings.Replace(program("js"), "Wait for it.", "Wait.", 1) + "console.log(post.mismatch);"
	if out, err := run(s.URL, changed); err != nil || !strings.HasSuffix(out, "\ntrue\n") {
		t.Errorf("another body: %v\n%s", err, out)
	}
	// What no repetition mends is an error at once.
	if out, err := run("", program("js")); err == nil || !strings.Contains(out, "Invalid URL") {
		t.Errorf("without an address: %v\n%s", err, out)
	}
}
