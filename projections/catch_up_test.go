package projections_test

import (
	"fmt"
	"slices"
	"testing"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// backlog returns comments, a third of which reply to earlier ones; some are hidden later.
func backlog(seed uint64, n int) (log []events.Recorded) {
	random := seeded(seed)
	imported := comments(random, "key", n)
	for i := range imported {
		e, _ := imported[i].Event.(events.PostImported)
		e.ParentPostID = nil
		if i > 0 && random.IntN(3) == 0 {
			e.ParentPostID = &imported[i-1-random.IntN(i)].StreamID
			if random.IntN(2) == 0 {
				e.ParentPostID = &imported[i-1-random.IntN(min(i, 100))].StreamID
			}
		}
		imported[i].Event = e
		log = append(log, imported[i])
		if i%500 == 0 {
			log = append(log, events.Recorded{
				StreamType: events.PostStream, StreamID: imported[i/2].StreamID, StreamVersion: 2, ID: fmt.Sprintf("hide-%d", i),
				Source: "staff/posts",
				Event:  events.PostHidden{Reason: "rude"}, Metadata: events.Metadata{Actor: "staff:test"},
			})
		}
	}
	return log
}

// TestCatchUpAcrossChunks: a backlog of many chunks gives the right rows although chunks are written concurrently, also
// when a row of one of them already exists.
func TestCatchUpAcrossChunks(t *testing.T) {
	t.Parallel()
	const size = 24_000
	for name, inTheWay := range map[string][]int{"undisturbed": nil, "rows in the way": {14_000, size - 2000}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t)
			log := backlog(3, size)
			for from := 0; from < len(log); from += 5000 {
				append1(t, pool, log[from:min(from+5000, len(log))]...)
			}
			for _, i := range inTheWay {
				stored := readAll(t, pool)[i:]
				first := slices.IndexFunc(stored, func(r events.Recorded) bool {
					e, ok := r.Event.(events.PostImported)
					return ok && e.ParentPostID == nil
				})
				if err := (projections.Posts{}).Apply(t.Context(), pool, stored[first:first+1]); err != nil {
					t.Fatal(err)
				}
			}
			run(t, projections.Config{
				Pool: pool, Logger: quiet(),
				Projections: []projections.Projection{projections.Posts{}, projections.Authors{}, projections.Integrations{}},
			})
			testdb.Eventually(t, "caught up",
				func() bool { return caughtUp(t, pool, "posts")() && caughtUp(t, pool, "authors")() })
			assertTables(t, pool)
		})
	}
}
