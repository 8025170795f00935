package blackbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var build struct {
	once sync.Once
	dir  string
	err  error
}

// Binary returns the path of cmd/novelgate, built once per test process. It carries the race detector when the tests do, and
// counts coverage when GOCOVERDIR says where to leave the counters.
func Binary(t testing.TB) string {
	t.Helper()
	build.once.Do(func() {
		build.dir, build.err = os.MkdirTemp("", "novelgate-blackbox-")
		if build.err == nil {
			build.err = buildInto(filepath.Join(build.dir, "novelgate"))
		}
	})
	if build.err != nil {
		t.Fatalf("build novelgate: %v", build.err)
	}
	return filepath.Join(build.dir, "novelgate")
}

// RemoveBinary deletes what Binary has built. TestMain calls it last.
func RemoveBinary() error {
	if build.dir == "" {
		return nil
	}
	if err := os.RemoveAll(build.dir); err != nil {
		return fmt.Errorf("remove the built binary: %w", err)
	}
	return nil
}

func buildInto(path string) error {
	args := []string{"build", "-o", path}
	if raceDetector {
		args = append(args, "-race")
	}
	if os.Getenv("GOCOVERDIR") != "" {
		args = append(args, "-cover", "-coverpkg=novelgate/...")
	}
	args = append(args, "novelgate/cmd/novelgate")
	out, err := exec.CommandContext(context.Background(), "go", args...).CombinedOutput() //nolint:gosec // the arguments are the ones above
	if err != nil {
		return fmt.Errorf("run go build: %w\n%s", err, out)
	}
	return nil
}
