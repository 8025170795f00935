package audit_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"novelgate/events/ledger/audit"
	"novelgate/events/ledger/ledgertest"
	"novelgate/internal/testdb"
)

// export writes a bundle and returns its directory.
func export(t testing.TB, l *ledgertest.Ledger, from int64) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bundle")
	exportTo(t, l, dir, from)
	return dir
}

func run(t testing.TB, config audit.Config) *audit.Report {
	t.Helper()
	config.Now = time.Now
	return testdb.Must(audit.Verify(t.Context(), config))(t)
}

func bundles(t testing.TB, dirs ...string) audit.Bundles {
	t.Helper()
	return testdb.Must(audit.OpenBundles(dirs))(t)
}

// sources returns the database of a ledger and a new bundle of it.
func sources(t testing.TB, l *ledgertest.Ledger) map[string]audit.Source {
	t.Helper()
	return map[string]audit.Source{"database": audit.NewDatabase(l.Pool), "bundle": bundles(t, export(t, l, 0))}
}

// faults returns the faults of a report as part@logIndex.
func faults(r *audit.Report) string {
	texts := make([]string, len(r.Faults))
	for i := range r.Faults {
		texts[i] = string(r.Faults[i].Part)
		if index := r.Faults[i].LogIndex; index != nil {
			texts[i] += fmt.Sprint("@", *index)
		}
	}
	return strings.Join(texts, " ")
}

// wantFaults checks the faults, and whether the first one names an event.
func wantFaults(t testing.TB, what string, r *audit.Report, want string, named bool) {
	t.Helper()
	if got := faults(r); got != want || r.OK != (want == "") {
		t.Errorf("%s: %q, want %q\n%+v", what, got, want, r.Faults)
		return
	}
	if named && (r.Faults[0].ID == "" || r.Faults[0].Source == "") {
		t.Errorf("%s: the event is not named: %+v", what, r.Faults[0])
	}
}
