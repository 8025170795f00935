package committer_test

import (
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/internal/testdb"
)

// BenchmarkImportPost imports comments of many authors into one novel: alone, and 256 at a time.
func BenchmarkImportPost(b *testing.B) {
	for _, writers := range []int{1, 256} {
		b.Run("writers="+strconv.Itoa(writers), func(b *testing.B) {
			r := newReplica(b, testdb.New(b))
			p := newPartner()
			if a := r.submit(b.Context(), p.novel("n", "Title", novel.Fields{})); a.err != nil {
				b.Fatal(a)
			}
			var n atomic.Int64
			run := uuid.NewString()
			work := func(next func() bool) {
				for next() {
					i := strconv.FormatInt(n.Add(1), 10)
					cmd := p.post(run+i, "Title")
					cmd.Import.Comment.ExternalUUID = "user-" + i
					if a := r.submit(b.Context(), cmd); a.err != nil {
						b.Error(a)
						return
					}
				}
			}
			b.ResetTimer()
			if writers == 1 {
				work(b.Loop)
				return
			}
			b.SetParallelism(writers / 2)
			b.RunParallel(func(pb *testing.PB) { work(pb.Next) })
		})
	}
}
