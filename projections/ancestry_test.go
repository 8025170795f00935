package projections_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"novelgate/events"
)

// place is where a comment stands in its discussion.
type place struct {
	Root  uuid.NullUUID
	Depth int
}

// However the log is cut into batches, every reply is found under its top-level comment, at its depth.
func TestRepliesArePlaced(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	rapid.Check(t, func(rt *rapid.T) {
		log := comments(seeded(1), "key", rapid.IntRange(1, 40).Draw(rt, "events"))
		want := map[uuid.UUID]place{}
		for i := range log {
			parent := rapid.IntRange(-2, i-1).Draw(rt, fmt.Sprintf("parent of %d", i))
			e, _ := log[i].Event.(events.PostImported)
			e.ParentPostID = nil
			var at place
			switch {
			case parent >= 0:
				e.ParentPostID = &log[parent].StreamID
				above := want[log[parent].StreamID]
				at = place{above.Root, above.Depth + 1}
				if !at.Root.Valid {
					at.Root = uuid.NullUUID{UUID: log[parent].StreamID, Valid: true}
				}
			case parent == -2: // a reply to what was never imported
				unknown := events.PostID(integrationID, "unknown")
				e.ParentPostID = &unknown
			}
			log[i].Event, log[i].Position, log[i].RecordedAt = e, events.Position{TransactionID: 10, Ordinal: int32(i)},
				e.WrittenAt
			want[log[i].StreamID] = at
		}
		truncateAsync(t, pool)
		for done := 0; done < len(log); {
			next := rapid.IntRange(done+1, len(log)).Draw(rt, "batch end")
			applyAsync(t, pool, log[done:next])
			done = next
		}
		if diff := cmp.Diff(want, readPlaces(t, pool)); diff != "" {
			rt.Errorf("places differ (-log +table):\n%s", diff)
		}
	})
}

func readPlaces(t testing.TB, pool *pgxpool.Pool) map[uuid.UUID]place {
	t.Helper()
	rows, err := pool.Query(context.Background(), `SELECT post_id, root_post_id, depth FROM posts`)
	if err != nil {
		t.Fatalf("read places: %v", err)
	}
	places := map[uuid.UUID]place{}
	var id uuid.UUID
	var at place
	if _, err := pgx.ForEachRow(rows, []any{&id, &at.Root, &at.Depth}, func() error {
		places[id] = at
		return nil
	}); err != nil {
		t.Fatalf("read places: %v", err)
	}
	return places
}
