package ledger_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/events/ledger"
	"novelgate/internal/testdb"
)

// TestRefusalIsShown: while a signer does not sign, the state has the reason, and its metrics show it. When it signs
// again, they do not.
func TestRefusalIsShown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breaks  func(t *testing.T, s *signed) (mend func() error)
		says    string
		refused float64 // the metric
	}{
		"the directory is gone": {func(t *testing.T, s *signed) func() error {
			t.Helper()
			away := string(s.directory) + "-away"
			testdb.NoError(t, os.Rename(string(s.directory), away))
			return func() error { return os.Rename(away, string(s.directory)) }
		}, "no such file", 0},
		"the directory of another ledger": {func(t *testing.T, s *signed) func() error {
			t.Helper()
			return replace(t, filepath.Join(string(s.directory), "id"), uuid.NewString())
		}, "signs this origin", 1},
		"an unreadable note": {func(t *testing.T, s *signed) func() error {
			t.Helper()
			notes := testdb.Must(filepath.Glob(filepath.Join(string(s.directory), "*.checkpoint")))(t)
			return replace(t, notes[0], "")
		}, "read the signed note", 0},
		"a tree that was set back": {func(t *testing.T, s *signed) func() error {
			t.Helper()
			setBack(t, s.pool, 3)
			stop := startSealer(t, ledger.SealerConfig{Pool: s.pool})
			awaitSealed(t, s.pool)
			stop()
			return nil
		}, "does not extend", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSigned(t, testdb.New(t), newDirectory(t))
			s.grow(5)
			metrics := ledger.NewMetrics()
			id := testdb.Must(ledger.Identify(t.Context(), s.pool, ledger.IdentityConfig{Directory: s.directory}))(t)
			signer := testdb.Must(ledger.NewSigner(ledger.SignerConfig{
				Pool: s.pool, Identity: id, Interval: time.Millisecond, Metrics: metrics, Logger: slog.New(slog.DiscardHandler),
			}))(t)
			testdb.Background(t, signer.Run)
			awaits := func(what, says string, signs, refused float64) {
				t.Helper()
				testdb.Eventually(t, what, func() bool {
					status := testdb.Must(ledger.ReadStatus(t.Context(), s.pool))(t)
					said := strings.Join(status.Trouble(), "\n")
					return strings.Contains(said, says) && (says != "") == (said != "") &&
						gauge(t, metrics, "signer") == signs && gauge(t, metrics, "signing_refused") == refused &&
						(says != "" || status.CheckpointSize != nil)
				})
			}
			awaits("it signs", "", 1, 0)
			mend := c.breaks(t, s)
			awaits("the reason is shown", c.says, 0, c.refused)
			if mend != nil {
				testdb.NoError(t, mend())
				awaits("it signs again", "", 1, 0)
			}
		})
	}
}

// TestRefusalAtTheStartIsShown: also a replica that cannot sign from its start on leaves the reason, until one signs.
func TestRefusalAtTheStartIsShown(t *testing.T) {
	t.Parallel()
	s := newSigned(t, testdb.New(t), newDirectory(t))
	s.grow(5)
	testdb.Must(ledger.Identify(t.Context(), s.pool, ledger.IdentityConfig{Directory: newDirectory(t)}))(t)
	status := testdb.Must(ledger.ReadStatus(t.Context(), s.pool))(t)
	if said := strings.Join(status.Trouble(), ""); !strings.Contains(said, "not signed: ") ||
		!strings.Contains(said, "start a new origin") {
		t.Errorf("the state says %q", said)
	}
	testdb.Background(t, s.signer.Run)
	testdb.Eventually(t, "a replica signs", func() bool {
		status := testdb.Must(ledger.ReadStatus(t.Context(), s.pool))(t)
		return len(status.Trouble()) == 0
	})
}

// replace replaces the content of a file until mend is called.
func replace(t *testing.T, file, content string) (mend func() error) {
	t.Helper()
	before := testdb.Must(os.ReadFile(file))(t)
	testdb.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	return func() error { return os.WriteFile(file, before, 0o600) }
}

// gauge returns the value of a metric of the ledger.
func gauge(t *testing.T, metrics *ledger.Metrics, name string) float64 {
	t.Helper()
	for _, family := range testdb.Must(metrics.Gather())(t) {
		if family.GetName() == "novelgate_ledger_"+name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
