package committer_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/internal/testdb"
)

// BenchmarkImportPost imports comments of many authors into one novel: alone, and many at a time, also with a share of
// retries among them.
func BenchmarkImportPost(b *testing.B) {
	for _, bc := range []struct {
		writers int
		retries float64
	}{{1, 0}, {64, 0}, {64, 0.1}, {256, 0}, {256, 0.1}} {
		b.Run(fmt.Sprintf("writers=%d/retries=%g", bc.writers, bc.retries), func(b *testing.B) {
			r := newReplica(b, testdb.New(b))
			p := newPartner()
			if a := r.submit(b.Context(), p.novel("n", "Title", novel.Fields{})); a.err != nil {
				b.Fatal(a)
			}
			var n atomic.Int64
			run := uuid.NewString()
			work := func(next func() bool) {
				for next() {
					i := n.Add(1)
					if rand.Float64() < bc.retries {
						i = 1 + rand.Int64N(i)
					}
					author := strconv.FormatInt(i, 10)
					cmd := p.postBy("user-"+author, run+author, "Title")
					if a := r.submit(b.Context(), cmd); a.err != nil {
						b.Error(a)
						return
					}
				}
			}
			b.ResetTimer()
			if bc.writers == 1 {
				work(b.Loop)
				return
			}
			b.SetParallelism(bc.writers / 2)
			b.RunParallel(func(pb *testing.PB) { work(pb.Next) })
		})
	}
}
