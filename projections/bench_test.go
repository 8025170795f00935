package projections_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/testdb"
	"novelgate/projections"
)

// BenchmarkApply measures what a projection costs per comment, in batches of 500 on tables that grow.
func BenchmarkApply(b *testing.B) {
	const size = 500
	for _, p := range projections.All() {
		b.Run(p.Name(), func(b *testing.B) {
			pool := testdb.Pool(b, testdb.New(b))
			random, done := seeded(1), 0
			for b.Loop() {
				b.StopTimer()
				batch := comments(random, fmt.Sprint("batch-", done), size)
				for i := range batch {
					batch[i].LogIndex = int64(done + i)
				}
				b.StartTimer()
				err := pgx.BeginFunc(b.Context(), pool, func(tx pgx.Tx) error { return p.Apply(b.Context(), tx, batch) })
				if err != nil {
					b.Fatal(err)
				}
				done += size
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(done), "µs/event")
		})
	}
}
