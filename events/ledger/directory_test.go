package ledger_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/events/ledger"
	"novelgate/internal/testdb"
)

// TestNothingIsSignedWithoutTheDirectory: without it every attempt fails and publishes nothing. The first one is
// logged, and a metric says that the process does not sign. With the directory the next one signs.
func TestNothingIsSignedWithoutTheDirectory(t *testing.T) {
	t.Parallel()
	pool, dir := newPool(t), filepath.Join(t.TempDir(), "signer")
	metrics := ledger.NewMetrics()
	signs := func() float64 { return testdb.Metric(t, metrics, "novelgate_ledger_signer") }
	var lines testdb.Log
	config := ledger.SignerConfig{Pool: pool, Interval: time.Millisecond, Metrics: metrics, Logger: lines.Logger()}
	config.Identity = testdb.Must(ledger.Identify(t.Context(), pool,
		ledger.IdentityConfig{Origin: testOrigin, Directory: ledger.Directory(dir)}))(t)
	signer := testdb.Must(ledger.NewSigner(config))(t)
	move := func(from, to string) {
		t.Helper()
		testdb.NoError(t, os.Rename(from, to))
	}
	move(dir, dir+".away")
	if err := signer.Sign(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the directory: %v", err)
	}
	stop := testdb.Background(t, signer.Run)
	testdb.Eventually(t, "the failure is logged, and a metric", func() bool {
		return strings.Contains(lines.String(), "level=WARN") && strings.Contains(lines.String(), dir) && signs() == 0
	})
	wantChain(t, pool)
	move(dir+".away", dir)
	testdb.Eventually(t, "it signs again", func() bool { return signs() == 1 && len(chain(t, pool)) > 0 })
	stop()
	if diff := cmp.Diff(string(latest(t, pool).Note), noted(t, ledger.Directory(dir))); diff != "" {
		t.Errorf("note (-newest checkpoint +got):\n%s", diff)
	}
}

// TestPlantedKeysDoNotSign: a directory of another user, or one to which every user can write, starts no origin.
func TestPlantedKeysDoNotSign(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(dir string) error{
		"directory of another user":    func(dir string) error { return os.Chown(dir, 65534, 65534) },
		"keys of another user":         func(dir string) error { return os.Chown(filepath.Join(dir, "key"), 65534, 65534) },
		"directory that all may write": func(dir string) error { return os.Chmod(dir, 0o777) },
		"keys that all may write":      func(dir string) error { return os.Chmod(filepath.Join(dir, "key"), 0o666) },
	} {
		if os.Geteuid() != 0 && strings.HasSuffix(name, "of another user") {
			continue // only root can make one
		}
		dir := filepath.Join(t.TempDir(), "signer")
		config := ledger.IdentityConfig{Origin: testOrigin, Directory: ledger.Directory(dir)}
		testdb.Must(ledger.Identify(t.Context(), newPool(t), config))(t)
		testdb.NoError(t, plant(dir))
		id := testdb.Must(ledger.Identify(t.Context(), newPool(t), config))(t)
		if id.Started || len(id.VerifierKeys) > 0 || !errors.Is(id.Reason, ledger.ErrDirectory) {
			t.Errorf("%s: %+v", name, id)
		}
	}
}

// noted returns the newest note of testOrigin in a directory; empty if there is none.
func noted(t testing.TB, dir ledger.Directory) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(string(dir), "ledger.example%2Ftest.checkpoint"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// TestFailuresAreLogged at once and then once a minute; for an unreachable database from the second one on; after a
// change of kind at once.
func TestFailuresAreLogged(t *testing.T) {
	t.Parallel()
	away, forked, other := io.ErrUnexpectedEOF, fmt.Errorf("x: %w", ledger.ErrForked), errors.New("other")
	disk := fmt.Errorf("x: %w", &fs.PathError{Op: "open", Path: "y", Err: syscall.ENOSPC})
	directory := fmt.Errorf("x: %w", ledger.ErrDirectory)
	many := func(err error, n int) (all []error) {
		for range n {
			all = append(all, err)
		}
		return all
	}
	for name, c := range map[string]struct {
		failures []error
		want     []int
	}{
		"none":                           {many(nil, 100), nil},
		"one that goes on":               {many(other, 130), []int{0, 60, 120}},
		"one after success":              {[]error{other, nil, other}, []int{0, 2}},
		"a database away for a moment":   {[]error{away, nil, away, nil}, nil},
		"a database that stays away":     {many(away, 70), []int{1, 61}},
		"a fork after a fail-over":       {[]error{away, forked, forked}, []int{1}},
		"a fork that goes on":            {many(forked, 70), []int{0, 60}},
		"a directory that must not sign": {many(directory, 70), []int{0, 60}},
		"a note that cannot be written":  {many(disk, 2), []int{0}},
	} {
		if diff := cmp.Diff(c.want, ledger.LoggedFailures(c.failures)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
