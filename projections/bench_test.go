package projections_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// BenchmarkCatchUp applies a backlog, one projection alone and all together. One operation is one event.
func BenchmarkCatchUp(b *testing.B) {
	for name, which := range map[string][]projections.Projection{
		"posts": {projections.Posts{}}, "authors": {projections.Authors{}}, "novels": {projections.Novels{}},
		"activity": {projections.Activity{}},
		"all":      projections.All(),
	} {
		b.Run(name, func(b *testing.B) {
			pool := newPool(b)
			fill(b, pool, b.N)
			before := measureCPU(b, pool)
			b.ResetTimer()
			stop := run(b, projections.Config{Pool: pool, Projections: which})
			for _, p := range which {
				for done := caughtUp(b, pool, p.Name()); !done(); {
					time.Sleep(20 * time.Millisecond)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			reportCPU(b, pool, before, b.N)
			stop()
		})
	}
}

// BenchmarkCommitToVisible measures how long a lone comment takes from its commit to its row in posts.
func BenchmarkCommitToVisible(b *testing.B) {
	for _, gap := range []time.Duration{0, 30 * time.Millisecond} {
		b.Run(fmt.Sprintf("every=%s", gap), func(b *testing.B) {
			pool, wake := newPool(b), eventlog.NewWake()
			run(b, projections.Config{Pool: pool, Wake: wake})
			testdb.Eventually(b, "start", caughtUp(b, pool, "posts"))
			random := seeded(1)
			var waited []time.Duration
			for i := range b.N {
				post := comment(random, fmt.Sprintf("key-%d", i))
				time.Sleep(gap)
				append1(b, pool, post)
				committed := time.Now()
				wake.Signal()
				for found := false; !found; time.Sleep(100 * time.Microsecond) {
					if err := pool.QueryRow(context.Background(), `SELECT EXISTS (SELECT FROM posts WHERE post_id = $1)`,
						post.StreamID).Scan(&found); err != nil {
						b.Fatal(err)
					}
				}
				waited = append(waited, time.Since(committed))
			}
			reportQuantiles(b, waited)
		})
	}
}

func fill(b *testing.B, pool *pgxpool.Pool, n int) {
	b.Helper()
	random := seeded(1)
	for done := 0; done < n; done += 100 {
		append1(b, pool, comments(random, fmt.Sprintf("batch-%d", done), min(100, n-done))...)
	}
}

// BenchmarkUnderLoad measures what following costs while 10,000 comments a second arrive, 100 per commit: compare the
// processor time per event with that of no replica, which is the cost of appending. One operation is one event.
func BenchmarkUnderLoad(b *testing.B) {
	for replicas := range 3 {
		b.Run(fmt.Sprintf("replicas=%d", replicas), func(b *testing.B) {
			pool, wake := newPool(b), eventlog.NewWake()
			var notifying sync.WaitGroup
			ctx, cancel := context.WithCancel(context.Background())
			notifying.Go(func() { wake.Notify(ctx, pool, quiet()) })
			followerWake := wake
			for range replicas {
				// The replica that appends is the first.
				run(b, projections.Config{Pool: pool, Wake: followerWake})
				followerWake = eventlog.NewWake()
			}
			load := make([][]events.Recorded, 0, b.N/100)
			random := seeded(1)
			for i := range cap(load) {
				load = append(load, comments(random, fmt.Sprintf("batch-%d", i), 100))
			}
			before := measureCPU(b, pool)
			ticker := time.NewTicker(10 * time.Millisecond)
			b.ResetTimer()
			for _, recorded := range load {
				<-ticker.C
				append1(b, pool, recorded...)
				wake.Signal()
			}
			if replicas > 0 {
				for done := caughtUp(b, pool, "posts"); !done(); {
					time.Sleep(20 * time.Millisecond)
				}
			}
			b.StopTimer()
			reportCPU(b, pool, before, b.N)
			ticker.Stop()
			cancel()
			notifying.Wait()
		})
	}
}
