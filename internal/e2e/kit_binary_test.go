package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

var (
	binaries = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "novelgate-e2e-") })
	binary   = sync.OnceValues(func() (string, error) { return build("novelgate", raceDetector) })
	plain    = sync.OnceValues(func() (string, error) { return build("plain/novelgate", false) })
)

// Binary returns the path of cmd/novelgate, built once per test process. It carries the race detector when the tests
// do, and counts coverage when GOCOVERDIR says where to leave the counters.
func Binary(t testing.TB) string {
	t.Helper()
	return built(t, binary)
}

// binaryFor returns the program for a command line: one without the race detector, which a short command spends most of
// its time on, unless the command runs things side by side.
func binaryFor(t testing.TB, args []string) string {
	t.Helper()
	sideBySide := []string{"analytics", "events", "ledger", "projection"}
	if !raceDetector || len(args) > 0 && slices.Contains(sideBySide, args[0]) {
		return Binary(t)
	}
	return built(t, plain)
}

func built(t testing.TB, program func() (string, error)) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatalf("build novelgate: %v", err)
	}
	return path
}

// removeBinaries deletes what was built.
func removeBinaries() error {
	dir, err := binaries()
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err != nil {
		return fmt.Errorf("remove the built binaries: %w", err)
	}
	return nil
}

func build(name string, race bool) (path string, err error) {
	dir, err := binaries()
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, name)
	args := []string{"build", "-o", path}
	if race {
		args = append(args, "-race")
	}
	if os.Getenv("GOCOVERDIR") != "" {
		args = append(args, "-cover", "-coverpkg=novelgate/...")
	}
	args = append(args, "novelgate/cmd/novelgate")
	out, err := exec.CommandContext(context.Background(), "go", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("run go build: %w\n%s", err, out)
	}
	return path, nil
}
