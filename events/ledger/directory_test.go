package ledger_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
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

// cutOff returns a signer whose directory was moved away, and the original path. It logs only if the config has a
// logger.
func cutOff(t testing.TB, config ledger.SignerConfig) (signer *ledger.Signer, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "signer")
	id, err := ledger.Identify(t.Context(), config.Pool,
		ledger.IdentityConfig{Origin: testOrigin, Directory: ledger.Directory(dir)})
	if err != nil {
		t.Fatal(err)
	}
	config.Identity = id
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if signer, err = ledger.NewSigner(config); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	return signer, dir
}

// TestNothingIsSignedWithoutTheDirectory: without it every attempt fails and publishes nothing. With it the next
// one signs.
func TestNothingIsSignedWithoutTheDirectory(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	signer, dir := cutOff(t, ledger.SignerConfig{Pool: pool})
	for range 2 {
		if err := signer.Sign(t.Context()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without the directory: %v", err)
		}
	}
	if sizes := chain(t, pool); len(sizes) != 0 {
		t.Errorf("checkpoints were signed: %v", sizes)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	sign(t, signer)
	if diff := cmp.Diff(string(latest(t, pool).Note), noted(t, ledger.Directory(dir))); diff != "" {
		t.Errorf("note (-newest checkpoint +got):\n%s", diff)
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

// TestSignerLogsItsFirstFailure: with an interval of an hour there is one attempt.
func TestSignerLogsItsFirstFailure(t *testing.T) {
	t.Parallel()
	var lines testdb.Log
	signer, dir := cutOff(t, ledger.SignerConfig{Pool: newPool(t), Interval: time.Hour, Logger: lines.Logger()})
	testdb.Background(t, signer.Run)
	testdb.Eventually(t, "the failure is logged", func() bool {
		return strings.Contains(lines.String(), "level=WARN") &&
			strings.Contains(lines.String(), dir)
	})
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

// TestMetricOfTheSigner: a process without its directory does not sign.
func TestMetricOfTheSigner(t *testing.T) {
	t.Parallel()
	metrics := ledger.NewMetrics()
	signs := func() float64 { return gauge(t, metrics, "novelgate_ledger_signer") }
	signer, dir := cutOff(t, ledger.SignerConfig{Pool: newPool(t), Interval: time.Millisecond, Metrics: metrics})
	testdb.Background(t, signer.Run)
	testdb.Eventually(t, "it does not sign without its directory", func() bool { return signs() == 0 })
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	testdb.Eventually(t, "it signs again", func() bool { return signs() == 1 })
}
