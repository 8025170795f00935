package history_test

import (
	"maps"
	"slices"
	"testing"

	"novelgate/readapi/history"
)

// BenchmarkMillion reads a log of a million events that was never analysed, with every filter: one page, and all of it.
func BenchmarkMillion(b *testing.B) {
	const size = 1_000_000
	pool := open(b)
	grow(b, pool, 0, size)
	all := filters(b, pool)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		reader, err := history.NewReader(b.Context(), pool, all[name])
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/page", func(b *testing.B) {
			for b.Loop() {
				horizon, err := reader.Horizon(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				if _, err := reader.Page(b.Context(), history.Cursor{}, horizon, 100); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/all", func(b *testing.B) {
			var text []byte
			for b.Loop() {
				count := 0
				err := (&history.Stream{Reader: reader}).Run(b.Context(), history.Cursor{}, func(list []history.Event) error {
					for i := range list {
						var err error
						if text, err = history.AppendCloudEvent(text[:0], &list[i]); err != nil {
							return err
						}
					}
					count += len(list)
					return nil
				}, func() error { return nil })
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(count), "events")
			}
		})
	}
}
