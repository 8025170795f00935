package e2e_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"novelgate/internal/testdb"
)

// TestEventsTail follows the log from another process until it is interrupted, which is how it ends well.
func TestEventsTail(t *testing.T) {
	t.Parallel()
	database := testdb.New(t)
	publish := func(title string) {
		if out := RunCLI(t, database, "novel", "publish", title); out.Code != 0 {
			t.Fatal(out.Stderr)
		}
	}
	publish("Before")
	cmd := exec.CommandContext(t.Context(), Binary(t), "events", "tail", "--json", "--from",
		"2000-01-01T00:00:00Z", "--type", "novel.created.v1")
	cmd.Env = append(cmd.Environ(), "NOVELGATE_DATABASE_URL="+database)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	for _, want := range []string{"Before", "After"} {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatalf("%v: %s", err, stderr.String())
		}
		var event struct {
			Type string
			Data struct{ Title string }
		}
		if err := json.Unmarshal(line, &event); err != nil || event.Type != "novel.created.v1" || event.Data.Title != want {
			t.Errorf("got %s, %v; want the novel %q", line, err, want)
		}
		if want == "Before" {
			publish("After")
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after an interrupt: %v: %s", err, stderr.String())
	}
	var entries []struct {
		Route        string
		RowsReturned *int
	}
	out := RunCLI(t, database, "events", "access-log", "--json")
	if err := json.Unmarshal([]byte(out.Stdout), &entries); err != nil {
		t.Fatalf("%v: %s", err, out.Stdout)
	}
	if tail := entries[len(entries)-1]; tail.Route != "novelgate events tail" || tail.RowsReturned == nil ||
		*tail.RowsReturned != 2 {
		t.Errorf("on record: %+v", tail)
	}
}
