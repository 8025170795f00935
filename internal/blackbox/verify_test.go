package blackbox_test

import (
	"strings"
	"testing"

	"novelgate/events/ledger/ledgertest"
	"novelgate/internal/blackbox"
)

// TestVerifyErasedWithoutRecord: words that are gone without a record of it are no fault, and are said to be gone.
func TestVerifyErasedWithoutRecord(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	l.Append(50)
	l.Exec(`ALTER TABLE events DISABLE TRIGGER USER`)
	l.Exec(`UPDATE events SET personal = NULL, salt = NULL WHERE position IN (11, 12) AND personal IS NOT NULL`)
	l.Exec(`ALTER TABLE events ENABLE TRIGGER USER`)
	out := blackbox.RunCLI(t, l.URL, "events", "verify", "--no-projections")
	if out.Code != 0 || !strings.Contains(out.Stdout, "WITHOUT A RECORD") || !strings.Contains(out.Stdout, "2 erased events, the first at log index 11,") {
		t.Errorf("it ends with %d: %s%s", out.Code, out.Stdout, out.Stderr)
	}
	out = blackbox.RunCLI(t, l.URL, "events", "verify", "--no-projections", "--json")
	if out.Code != 0 || !strings.Contains(out.Stdout, `"erasedWithoutRecord": 2`) || !strings.Contains(out.Stdout, `"firstErasedWithoutRecord": 11`) {
		t.Errorf("it ends with %d: %s%s", out.Code, out.Stdout, out.Stderr)
	}
}
