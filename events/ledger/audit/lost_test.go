package audit_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"novelgate/events/ledger"
	"novelgate/events/ledger/audit"
	"novelgate/events/ledger/ledgertest"
)

// TestLostEvents: after a restore that lost signed events, and a new origin, kept checkpoints of the old origin show
// what was lost. They agree if nothing that they cover was lost.
func TestLostEvents(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	l.Append(100)
	restored := l.Backup()
	kept := map[string][]byte{"kept-100": l.Latest().Note}
	l.Append(2)
	kept["kept-102"] = l.Latest().Note
	l.Append(3)
	kept["kept-105"] = l.Latest().Note
	older := bundles(t, export(t, l, 0))
	restored.SignAs("ledger.example/second")
	restored.Sign()
	for _, more := range []int{0, 3, 2, 4} { // shorter than the signed history, between, as long, longer
		if more > 0 {
			restored.Append(more)
		}
		kept["newest"] = restored.Latest().Note
		database, bundle := audit.NewDatabase(restored.Pool), bundles(t, export(t, restored, 0))
		for name, c := range map[string]struct {
			source audit.Source
			kept   []string
			want   string
			count  int64
			says   string
		}{
			"nothing":                          {database, []string{"kept-100"}, "", 0, ""},
			"nothing, in a bundle":             {bundle, []string{"kept-100"}, "", 0, ""},
			"two":                              {database, []string{"kept-102"}, "lost@100", 2, "from 100 to 101"},
			"five":                             {database, []string{"kept-105"}, "lost@100", 5, "from 100 to 104"},
			"five, beside a later one":         {database, []string{"kept-105", "newest"}, "lost@100", 5, "from 100 to 104"},
			"five, the first of the first two": {database, []string{"kept-102", "kept-105"}, "lost@100", 5, "from 100 to 101"},
			"five, in a bundle": {
				bundle, []string{"kept-100", "kept-105"}, "lost@100", 5, "from 100 to 104; or it is a checkpoint of another ledger",
			},
			"five, in a bundle, by one": {
				bundle, []string{"kept-105"}, "lost@0", 105, "from 0 to 104; or it is a checkpoint of another ledger",
			},
		} {
			mine := map[string][]byte{}
			for _, name := range c.kept {
				mine[name] = kept[name]
			}
			r := run(t, audit.Config{Source: c.source, Keys: restored.Keys, Kept: mine})
			wantFaults(t, name, r, c.want, false)
			if r.FaultCount != c.count || len(r.Kept) != len(mine) ||
				c.says != "" && !strings.HasSuffix(r.Faults[0].Detail, c.says) {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
	r := run(t, audit.Config{
		Source: audit.NewDatabase(restored.Pool), Keys: restored.Keys, Kept: map[string][]byte{"bundle": kept["kept-105"]},
		Older: older,
	})
	wantFaults(t, "against a bundle", r, "lost@100", true)
	if r.FaultCount != 5 || r.Faults[0].ID == "" {
		t.Errorf("against a bundle: %+v", r.Faults)
	}
	other := []byte(strings.ReplaceAll(string(kept["kept-100"]), ledgertest.Origin, "ledger.example/other"))
	config := audit.Config{
		Source: audit.NewDatabase(restored.Pool), Kept: map[string][]byte{"other": other}, Now: time.Now,
	}
	if _, err := audit.Verify(t.Context(), config); !errors.Is(err, audit.ErrOrigin) {
		t.Errorf("against a checkpoint of another ledger: %v", err)
	}
}

// TestNothingIsSignedYet: a new origin has no checkpoint at first, which is not a fault.
func TestNothingIsSignedYet(t *testing.T) {
	t.Parallel()
	l := ledgertest.New(t)
	l.Append(10)
	l.SignAs("ledger.example/second")
	none := httptest.NewServer(http.NotFoundHandler())
	defer none.Close()
	for want, source := range map[string]audit.Source{
		"nothing is signed yet under the origin ledger.example/second": audit.NewDatabase(l.Pool),
		"nothing is signed yet under the origin in use":                &audit.Service{Client: none.Client(), URL: none.URL},
	} {
		_, err := audit.Verify(t.Context(), audit.Config{Source: source, Now: time.Now})
		if !errors.Is(err, ledger.ErrNotFound) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
