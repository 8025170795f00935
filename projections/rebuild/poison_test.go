package rebuild_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// insertRaw inserts an event with any chapter.
func insertRaw(t *testing.T, pool *pgxpool.Pool, key, chapter string) {
	t.Helper()
	data := `{"novelId":"00000000-0000-0000-0000-000000000002",` +
		`"threadId":"00000000-0000-0000-0000-000000000003","writtenAt":"2026-01-01T00:00:00Z"` + chapter + `}`
	testdb.Exec(t, pool, `INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, integration_id, event_source, event_type, data, batch_id)
		VALUES ((SELECT coalesce(max(log_index) + 1, 0) FROM events), 'post', $3, 1, $1, $4, 'test', 'post.imported.v1', $2::text::json, gen_random_uuid())`, key, data,
		events.PostID(integrationID, key), integrationID)
}

// TestPoisonAndSkip: a rebuild names an event that it cannot apply, and changes nothing. After a skip, every rebuild
// leaves the event out.
func TestPoisonAndSkip(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ chapter, says string }{
		"cannot be applied": {`,"chapterNumber":"abc"`, "abc"},
		"cannot be read":    {`,"chapterNumber":1,"parentPostId":"nonsense"`, "post.imported.v1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t)
			p := projections.Posts{}
			random := seeded(1)
			append1(t, pool, comments(random, "before", 30)...)
			insertRaw(t, pool, "poison", c.chapter)
			append1(t, pool, comments(random, "after", 30)...)
			stop := follow(t, pool, p)
			awaitFailed(t, pool, "posts")
			failed := status(t, pool, "posts")

			_, err := rebuild.Run(t.Context(), rebuild.Config{Pool: pool, Projection: p, ChunkSize: 20, Logger: quiet()})
			var poison *rebuild.PoisonError
			if !errors.As(err, &poison) || poison.LogIndex != 30 || *failed.FailedAt != 30 ||
				poison.Delivery != (projections.Delivery{ID: "poison", Source: events.JoinSource(integrationID, "test")}) ||
				!strings.Contains(err.Error(), c.says) {
				t.Fatalf("the rebuild says %v, the live projection has failed at %d", err, *failed.FailedAt)
			}
			wantRows(t, pool, "posts", 30)
			if s := status(t, pool, "posts"); s.Rebuild == nil || s.Rebuild.Error == nil ||
				!strings.Contains(*s.Rebuild.Error, "event 30 ") || s.Rebuild.EventsDone != 30 {
				t.Errorf("status: %+v", s.Rebuild)
			}

			skipped := testdb.Must(projections.Skip(t.Context(), pool, "posts", "staff:test", "damaged"))(t)
			if skipped.LogIndex != 30 || skipped.EventID != "poison" {
				t.Errorf("skipped %+v", skipped)
			}
			caughtUp(t, pool, "posts")
			stop()
			want := digest(t, pool, p)
			for i, size := range []int{20, 20, 7} {
				result := mustRun(t, rebuild.Config{Pool: pool, Projection: p, ChunkSize: size})
				if result.Resumed != (i == 0) {
					t.Errorf("rebuild %d: %+v", i, result)
				}
				wantDigest(t, pool, p, want)
			}
			wantRows(t, pool, "posts", 60)
		})
	}
}

// TestSkipDuringARebuild: staff skip an event while a rebuild loads. Replies to the skipped comment are top-level.
func TestSkipDuringARebuild(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	p := projections.Posts{}
	random := seeded(1)
	append1(t, pool, comments(random, "before", 100)...)
	insertRaw(t, pool, "poison", `,"chapterNumber":"abc"`)
	replies, poison := comments(random, "after", 100), events.PostID(integrationID, "poison")
	for i := range replies {
		if e, ok := replies[i].Event.(events.PostImported); ok && i%3 == 0 {
			e.ParentPostID = &poison
			replies[i].Event = e
		}
	}
	append1(t, pool, replies...)
	follow(t, pool, p)
	awaitFailed(t, pool, "posts")
	var once sync.Once
	mustRun(t, rebuild.Config{
		Pool: pool, Projection: p, ChunkSize: 10, Progress: func(now rebuild.Progress) {
			if now.Done >= 10 {
				once.Do(func() { testdb.Must(projections.Skip(t.Context(), pool, "posts", "staff:test", "damaged"))(t) })
			}
		},
	})
	caughtUp(t, pool, "posts")
	wantRows(t, pool, "posts", 200)
	if below := testdb.Value[int](t, pool, `SELECT count(*) FROM posts WHERE root_post_id = $1 OR parent_post_id = $1 AND depth > 0`, poison); below > 0 {
		t.Errorf("%d comments stand below what was skipped", below)
	}
}

// TestPoisonOfNewCode: an event that only the new code cannot apply is found, wherever it is in a chunk, and all events
// before it are applied. It may arrive during the switch.
func TestPoisonOfNewCode(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	s := newStamped(t, pool, "sick")
	random := seeded(1)
	append1(t, pool, comments(random, "key", 300)...)
	for _, i := range []int{0, 137, 199, 200, 299, 303} {
		var once sync.Once
		s.poison = fmt.Sprint("key-", i)
		_, err := rebuild.Run(t.Context(), rebuild.Config{
			Pool: pool, Projection: s, ChunkSize: 100, Logger: quiet(), Progress: func(p rebuild.Progress) {
				if p.Done == 300 { // the last rebuild is about to switch
					once.Do(func() { append1(t, pool, comments(random, "key", 305)[300:]...) })
				}
			},
		})
		var poison *rebuild.PoisonError
		if !errors.As(err, &poison) || poison.Delivery.ID != s.poison || poison.LogIndex != int64(i) {
			t.Errorf("event %d: %v", i, err)
		}
		if discarded := testdb.Must(rebuild.Discard(t.Context(), pool, s))(t); discarded.EventsDone != events.Position(i) {
			t.Errorf("event %d: %d events are applied", i, discarded.EventsDone)
		}
	}
	wantRows(t, pool, "sick", 0)
}
