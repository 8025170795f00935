//go:build chaos

package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"novelgate/internal/testdb"
)

// TestRunCluster: the program of make run-cluster prints a command that posts a comment, which a reader then finds.
// Ctrl-C leaves no process behind, and neither does SIGKILL. With --data-dir the next start finds the data.
func TestRunCluster(t *testing.T) {
	dir := testdb.Must(os.MkdirTemp("", "novelgate-chaos-"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil { // the account of PostgreSQL must pass
		t.Fatal(err)
	}
	start := func() (p *process, service string) {
		t.Helper()
		p = launchProgram(t, testdb.Must(clusterProgram())(t), "--binary", Binary(t), "--network", networkOfTest(250),
			"--data-dir", filepath.Join(dir, "data"))
		return p, strings.Fields(p.line(t, "service"))[0]
	}
	wantComment := func(service string) {
		t.Helper()
		testdb.Eventually(t, "the comment is on the page", func() bool {
			_, page := Get(t, service+"/novels/the-hunger-games/discussion")
			return strings.Contains(page, "Could not put it down!")
		})
	}
	p, service := start()
	command := "curl " + p.line(t, "curl ")
	if said, err := exec.CommandContext(t.Context(), "sh", "-c", command).Output(); err != nil ||
		!strings.HasPrefix(string(said), "HTTP/1.1 201") {
		t.Fatalf("%s\n%s %v", command, said, err)
	}
	wantComment(service)
	p.signal(t, syscall.SIGINT)
	if code := p.wait(t); code != 0 {
		t.Errorf("the cluster ended with %d\n%s", code, p.stderr)
	}
	if left := running(t, dir); len(left) > 0 {
		t.Errorf("these processes are left: %v", left)
	}

	p, service = start()
	wantComment(service)
	p.kill()
	testdb.Eventually(t, "no process is left", func() bool { return len(running(t, dir)) == 0 })
}

// running returns the command lines of processes that work in a directory or below it, by process.
func running(t *testing.T, dir string) map[int]string {
	t.Helper()
	found := map[int]string{}
	for _, process := range testdb.Must(filepath.Glob("/proc/[0-9]*"))(t) {
		pid, numberErr := strconv.Atoi(filepath.Base(process))
		work, err := os.Readlink(filepath.Join(process, "cwd")) // it may have ended
		if err == nil && numberErr == nil && strings.HasPrefix(work, dir) {
			line, _ := os.ReadFile(filepath.Join(process, "cmdline")) // likewise
			found[pid] = strings.ReplaceAll(string(line), "\x00", " ")
		}
	}
	return found
}
