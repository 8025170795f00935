package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"novelgate/events/ledger/ledgertest"
)

// TestVerifyContinuingBundle: where verification begins is said by whoever verifies, and not by the bundle; what was
// not verified is said, too.
func TestVerifyContinuingBundle(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	l.Append(5000)
	dir := t.TempDir()
	older, newer := filepath.Join(dir, "older"), filepath.Join(dir, "newer")
	novelgate := func(code int, want []string, args ...string) {
		t.Helper()
		out := RunCLI(t, l.URL, append([]string{"events"}, args...)...)
		if out.Code != code {
			t.Errorf("events %v ended with %d, want %d", args, out.Code, code)
		}
		for _, want := range want {
			if !strings.Contains(out.Stdout+out.Stderr, want) {
				t.Errorf("events %v does not say %q:\n%s%s", args, want, out.Stdout, out.Stderr)
			}
		}
	}
	novelgate(0, nil, "export", older)
	l.Append(100)
	novelgate(0, []string{"1004 events from log index 4096 on"}, "export", newer, "--since", older)
	novelgate(0, []string{"everything agrees\n"}, "verify", older, newer)
	novelgate(1, []string{
		"begins elsewhere: with log index 4096", "from log index 0 on", "bundles in front of it", "--first-log-index 4096",
	}, "verify", newer)
	novelgate(1, []string{"begins elsewhere: with log index 4096", "from log index 8192 on"}, "verify", newer,
		"--first-log-index", "8192")
	novelgate(1, []string{"begins elsewhere: with log index 0", "leave --first-log-index out"}, "verify", older,
		"--first-log-index", "4096")
	novelgate(0, []string{"everything agrees from log index 4096 on", "4096 entries in front of log index 4096"}, "verify",
		newer, "--first-log-index", "4096")
	novelgate(0, []string{`"unverified": 4096`}, "verify", newer, "--first-log-index", "4096", "--json")

	manifest := filepath.Join(older, "manifest.json")
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(manifest,
		[]byte(strings.Replace(string(text), `"firstLogIndex": 0`, `"firstLogIndex": 4096`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	novelgate(1, []string{"begins elsewhere: with log index 4096"}, "verify", older)
}

// TestVerifyErasedWithoutRecord: words that are gone without a record of it are no fault, and are said to be gone.
func TestVerifyErasedWithoutRecord(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	l.Append(50)
	l.Exec(`ALTER TABLE events DISABLE TRIGGER USER`)
	l.Exec(`UPDATE events SET personal = NULL, salt = NULL, personal_digest = personal_digest(salt, personal)
		WHERE position IN (11, 12) AND personal IS NOT NULL`)
	l.Exec(`ALTER TABLE events ENABLE TRIGGER USER`)
	out := RunCLI(t, l.URL, "events", "verify", "--no-projections")
	if out.Code != 0 || !strings.Contains(out.Stdout, "WITHOUT A RECORD") ||
		!strings.Contains(out.Stdout, "2 erased events, the first at log index 11,") {
		t.Errorf("it ends with %d: %s%s", out.Code, out.Stdout, out.Stderr)
	}
	out = RunCLI(t, l.URL, "events", "verify", "--no-projections", "--json")
	if out.Code != 0 || !strings.Contains(out.Stdout, `"erasedWithoutRecord": 2`) ||
		!strings.Contains(out.Stdout, `"firstErasedWithoutRecord": 11`) {
		t.Errorf("it ends with %d: %s%s", out.Code, out.Stdout, out.Stderr)
	}
}
