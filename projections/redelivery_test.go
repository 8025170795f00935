package projections_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// However the log is cut into batches and whichever batches come again, the tables are what the log says.
func TestRedeliveryChangesNothing(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	rapid.Check(t, func(rt *rapid.T) {
		log := fewAuthors(rapid.Uint64().Draw(rt, "seed"), rapid.IntRange(1, 60).Draw(rt, "events"))
		truncateAsync(t, pool)
		for done := 0; done < len(log); {
			next := rapid.IntRange(done+1, len(log)).Draw(rt, "batch end")
			applyAsync(t, pool, log[done:next])
			done = next
			if rapid.Bool().Draw(rt, "again") {
				from := rapid.IntRange(0, done-1).Draw(rt, "again from")
				applyAsync(t, pool, log[from:rapid.IntRange(from+1, done).Draw(rt, "again to")])
			}
		}
		if diff := modelsDiff(t, pool, log, projections.Posts{}, projections.Authors{}); diff != "" {
			rt.Error(diff)
		}
	})
}

// A comment that was erased after it was projected loses author and content when it is applied again.
func TestErasedCommentStaysErased(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	log := fewAuthors(1, 4)
	erased := make([]events.Recorded, len(log))
	for i := range log {
		erased[i] = log[i]
		if e, ok := log[i].Event.(events.PostImported); ok {
			e.Comment = nil
			erased[i].Event = e
		}
	}
	applyAsync(t, pool, log)
	applyAsync(t, pool, erased)
	applyAsync(t, pool, log)
	if diff := modelsDiff(t, pool, erased, projections.Posts{}); diff != "" {
		t.Error(diff)
	}
}

// fewAuthors returns a log in which authors often change their names, also at the same instant, some comments are
// erased, many reply to earlier ones or to what was never imported, and other events lie between: threads, and what
// staff decided about comments before.
func fewAuthors(seed uint64, n int) []events.Recorded {
	random := seeded(seed)
	log := comments(random, "key", n)
	versions := map[uuid.UUID]int{}
	var posts []uuid.UUID
	for i := range log {
		e, _ := log[i].Event.(events.PostImported)
		e.WrittenAt = e.WrittenAt.Truncate(1000e9)
		e.Comment.ExternalUUID = fmt.Sprintf("user-%d", random.IntN(4))
		if random.IntN(5) == 0 {
			e.Comment = nil
		}
		if len(posts) > 0 && random.IntN(3) == 0 {
			e.ParentPostID = &posts[random.IntN(len(posts))]
		}
		log[i].Event = e
		log[i].LogIndex = int64(i)
		log[i].RecordedAt = e.WrittenAt.AddDate(1, 0, i)
		if random.IntN(6) == 0 {
			log[i].Event = events.ThreadOpened{NovelID: e.NovelID}
		} else if len(posts) > 0 && random.IntN(3) == 0 {
			id := posts[random.IntN(len(posts))]
			versions[id]++
			log[i].StreamID, log[i].StreamVersion = id, versions[id]
			log[i].Event = events.PostHidden{}
			if random.IntN(2) == 0 {
				log[i].Event = events.PostRestored{}
			}
		} else {
			posts = append(posts, log[i].StreamID)
			versions[log[i].StreamID] = 1
		}
	}
	return log
}

func applyAsync(t *testing.T, pool *pgxpool.Pool, batch []events.Recorded) {
	t.Helper()
	for _, p := range projections.All() {
		if err := p.Apply(context.Background(), pool, batch); err != nil {
			t.Fatalf("apply to %s: %v", p.Name(), err)
		}
	}
}

func truncateAsync(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	testdb.Exec(t, pool, `TRUNCATE posts, authors, novels, activity_applied, daily_facts, thread_activity, chapter_activity,
			integration_activity, novel_activity`)
}
