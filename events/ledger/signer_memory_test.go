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

// cutOff returns a signer of which the directory of its memory is away, and what the directory was called. It logs nothing unless the config
// has a logger.
func cutOff(t testing.TB, config ledger.SignerConfig) (signer *ledger.Signer, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "keys")
	id, err := ledger.Identify(t.Context(), config.Pool, ledger.IdentityConfig{DefaultOrigin: testOrigin, KeyFile: filepath.Join(dir, "ledger.key")})
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

// TestSignerWritesItsMemoryInTheEnd: while its directory is away every attempt fails, and the next one after that writes the file, though
// nothing was appended.
func TestSignerWritesItsMemoryInTheEnd(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	signer, dir := cutOff(t, ledger.SignerConfig{Pool: pool})
	for range 2 {
		if err := signer.Sign(t.Context()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("without a directory for the memory: %v", err)
		}
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	sign(t, signer)
	remembered, err := os.ReadFile(filepath.Join(dir, "ledger.key.checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(latest(t, pool).Note), string(remembered)); diff != "" {
		t.Errorf("memory (-newest checkpoint +got):\n%s", diff)
	}
}

// TestSignerKnowsWhatItCouldNotWrite: a tree that was set back is noticed, too, while the memory cannot be written.
func TestSignerKnowsWhatItCouldNotWrite(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	signer, _ := cutOff(t, ledger.SignerConfig{Pool: pool})
	stop := startSealer(t, ledger.SealerConfig{Pool: pool})
	for range 6 {
		appendEvents(t, pool, 1)
	}
	awaitSealed(t, pool)
	if err := signer.Sign(t.Context()); err == nil {
		t.Error("signed without a directory for the memory")
	}
	stop()
	setBack(t, pool, 3)
	if err := signer.Sign(t.Context()); !errors.Is(err, ledger.ErrForked) {
		t.Errorf("with fewer entries than were signed: %v", err)
	}
}

// TestSignerLogsItsFirstFailure: an interval of an hour leaves time for one attempt.
func TestSignerLogsItsFirstFailure(t *testing.T) {
	t.Parallel()
	var lines logged
	signer, dir := cutOff(t, ledger.SignerConfig{Pool: newPool(t), Interval: time.Hour, Logger: lines.logger()})
	run(t, signer.Run)
	testdb.Eventually(t, "the failure is logged", func() bool {
		return strings.Contains(lines.String(), "level=WARN") && strings.Contains(lines.String(), filepath.Join(dir, "ledger.key.checkpoint"))
	})
}

// TestFailuresAreLogged at once and then once a minute, of a database that is away from the second one on, and of another kind at once.
func TestFailuresAreLogged(t *testing.T) {
	t.Parallel()
	away, forked, other := io.ErrUnexpectedEOF, fmt.Errorf("x: %w", ledger.ErrForked), errors.New("other")
	disk := fmt.Errorf("x: %w: %w", ledger.ErrMemory, &fs.PathError{Op: "open", Path: "y", Err: syscall.ENOSPC})
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
		"none":                            {many(nil, 100), nil},
		"one that goes on":                {many(other, 130), []int{0, 60, 120}},
		"one after success":               {[]error{other, nil, other}, []int{0, 2}},
		"a database away for a moment":    {[]error{away, nil, away, nil}, nil},
		"a database that stays away":      {many(away, 70), []int{1, 61}},
		"a fork after a fail-over":        {[]error{away, forked, forked}, []int{1}},
		"a fork that goes on":             {many(forked, 70), []int{0, 60}},
		"a memory that cannot be written": {many(disk, 2), []int{0}},
	} {
		if diff := cmp.Diff(c.want, ledger.LoggedFailures(c.failures)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
