package projections_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// backlog returns comments of which a third reply to earlier ones, near and far, and some are hidden later; and where
// each stands.
func backlog(seed uint64, n int) (log []events.Recorded, places map[uuid.UUID]place) {
	random := seeded(seed)
	imported := comments(random, "key", n)
	places = make(map[uuid.UUID]place, n)
	for i := range imported {
		e, _ := imported[i].Event.(events.PostImported)
		e.ParentPostID = nil
		var at place
		if i > 0 && random.IntN(3) == 0 {
			parent := imported[i-1-random.IntN(i)].StreamID
			if random.IntN(2) == 0 {
				parent = imported[i-1-random.IntN(min(i, 100))].StreamID
			}
			e.ParentPostID = &parent
			above := places[parent]
			at = place{above.Root, above.Depth + 1}
			if !at.Root.Valid {
				at.Root = uuid.NullUUID{UUID: parent, Valid: true}
			}
		}
		imported[i].Event = e
		places[imported[i].StreamID] = at
		log = append(log, imported[i])
		if i%500 == 0 {
			log = append(log, events.Recorded{
				StreamType: events.PostStream, StreamID: imported[i/2].StreamID, StreamVersion: 2, ID: fmt.Sprintf("hide-%d", i),
				Source: "staff/posts",
				Event:  events.PostHidden{Reason: "rude"}, Metadata: events.Metadata{Actor: "staff:test"},
			})
		}
	}
	return log, places
}

// A backlog of many chunks comes to what the log says, comment by comment, although chunks are written side by side;
// also when a row is in the way of one of them while the next ones are under way.
func TestCatchUpAcrossChunks(t *testing.T) {
	t.Parallel()
	const size = 24_000
	for name, inTheWay := range map[string][]int{"undisturbed": nil, "rows in the way": {14_000, size - 2000}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t)
			log, places := backlog(3, size)
			for from := 0; from < len(log); from += 5000 {
				append1(t, pool, log[from:min(from+5000, len(log))]...)
			}
			for _, i := range inTheWay {
				stored := readAll(t, pool)[i:]
				first := slices.IndexFunc(stored,
					func(r events.Recorded) bool { return places[r.StreamID] == place{} && r.StreamVersion == 1 })
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
			if diff := difference(places, readPlaces(t, pool)); diff != "" {
				t.Errorf("places differ (-log +table):\n%.2000s", diff)
			}
		})
	}
}
