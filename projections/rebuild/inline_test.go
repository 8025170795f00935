package rebuild_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/events/eventlog"
	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// TestRebuildInlineUnderAppends: inline projections are rebuilt during appends. Nothing is lost, and every append
// succeeds in the end.
func TestRebuildInlineUnderAppends(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	stop := make(chan struct{})
	var writers sync.WaitGroup
	made := make([]int, 3)
	for w := range made {
		writers.Go(func() {
			random := seeded(uint64(w))
			for {
				select {
				case <-stop:
					return
				default:
				}
				appendUntilDone(t, pool, novel(random, fmt.Sprintf("%d-%d", w, made[w])))
				made[w]++
				time.Sleep(time.Millisecond)
			}
		})
	}
	for range 2 {
		for _, p := range projections.Inline() {
			time.Sleep(10 * time.Millisecond)
			mustRun(t, rebuild.Config{Pool: pool, Projection: p})
		}
	}
	close(stop)
	writers.Wait()
	all := made[0] + made[1] + made[2]
	if titles, threads := count(t, pool, "title_lookup"), count(t, pool, "threads"); titles != all || threads != all {
		t.Errorf("%d titles and %d threads of %d novels", titles, threads, all)
	}
	t.Logf("%d novels", all)
	for _, p := range projections.Inline() {
		written := digest(t, pool, p)
		mustRun(t, rebuild.Config{Pool: pool, Projection: p})
		if diff := cmp.Diff(written, digest(t, pool, p)); diff != "" {
			t.Errorf("%s (-written +rebuilt):\n%s", p.Name(), diff)
		}
	}
}

// novel returns the first events of a novel and of its thread.
func novel(random *rand.Rand, title string) []events.Recorded {
	owner := uuid.UUID{1}
	id := events.NovelID(title)
	history := []events.Event{
		events.NovelCreated{Title: title, Slug: "slug-" + title, Author: "A", OwnerID: &owner, State: "approved"},
		events.NovelUpdated{Synopsis: new("S")},
		events.NovelPublished{},
	}[:1+random.IntN(3)]
	var recorded []events.Recorded
	for i, event := range history {
		recorded = append(recorded, events.Recorded{
			StreamType: events.NovelStream, StreamID: id, StreamVersion: i + 1, ID: fmt.Sprintf("%s v%d", title, i+1),
			Source: "tests", Event: event,
		})
	}
	return append(recorded, events.Recorded{
		StreamType: events.ThreadStream, StreamID: events.ThreadID(id), StreamVersion: 1, ID: title + " thread",
		Source: "tests", Event: events.ThreadOpened{NovelID: id},
	})
}

// appendUntilDone appends like the committer: with inline projections, a short lock_timeout, and a retry after a
// conflict.
func appendUntilDone(t *testing.T, pool *pgxpool.Pool, recorded []events.Recorded) {
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		var batch pgx.Batch
		batch.Queue("SET LOCAL lock_timeout = '20ms'")
		if err := projections.QueueAppend(context.Background(), &batch, recorded); err != nil {
			t.Error(err)
			return
		}
		err := pool.SendBatch(context.Background(), &batch).Close()
		if err == nil {
			return
		}
		if !eventlog.IsConflict(err) || time.Since(begun) > testdb.SettleTimeout {
			t.Errorf("append: %v", err)
			return
		}
	}
}
