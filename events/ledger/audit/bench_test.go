package audit_test

import (
	"path/filepath"
	"testing"
	"time"

	"novelgate/events/ledger/audit"
	"novelgate/events/ledger/ledgertest"
)

// BenchmarkBundle exports and verifies 200,000 typical comments.
func BenchmarkBundle(b *testing.B) {
	const n = 200_000
	l := ledgertest.New(b)
	l.Append(n / 2)
	l.Append(n / 2)
	dir := ""
	per := func(b *testing.B) { b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "events/s") }
	b.Run("export", func(b *testing.B) {
		for b.Loop() {
			dir = filepath.Join(b.TempDir(), "bundle")
			if _, err := (&audit.Export{DB: l.Pool, Dir: dir, Workers: 3, Now: time.Now}).Run(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		per(b)
	})
	dir = export(b, l, 0)
	for name, source := range map[string]audit.Source{"bundle": bundles(b, dir), "database": audit.NewDatabase(l.Pool)} {
		b.Run("verify/"+name, func(b *testing.B) {
			for b.Loop() {
				if r := run(b, audit.Config{Source: source, Workers: 3}); !r.OK {
					b.Fatal(faults(r))
				}
			}
			per(b)
		})
	}
}
