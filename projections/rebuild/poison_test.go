package rebuild_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
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
			testdb.Eventually(t, "the live projection has failed",
				func() bool { return status(t, pool, "posts").State == projections.Failed })
			failed := status(t, pool, "posts")

			_, err := rebuild.Run(t.Context(), rebuild.Config{Pool: pool, Projection: p, ChunkSize: 20, Logger: quiet()})
			var poison *rebuild.PoisonError
			if !errors.As(err, &poison) || poison.LogIndex != 30 || *failed.FailedAt != 30 ||
				poison.Delivery != (projections.Delivery{ID: "poison", Source: events.JoinSource(integrationID, "test")}) ||
				!strings.Contains(err.Error(), c.says) {
				t.Fatalf("the rebuild says %v, the live projection has failed at %d", err, *failed.FailedAt)
			}
			if n := count(t, pool, "posts"); n != 30 {
				t.Errorf("%d posts", n)
			}
			if s := status(t, pool, "posts"); s.Rebuild == nil || s.Rebuild.Error == nil ||
				!strings.Contains(*s.Rebuild.Error, "event 30 ") || s.Rebuild.EventsDone != 30 {
				t.Errorf("status: %+v", s.Rebuild)
			}

			skipped, err := projections.Skip(t.Context(), pool, "posts", "staff:test", "damaged")
			if err != nil {
				t.Fatal(err)
			}
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
				if diff := cmp.Diff(want, digest(t, pool, p)); diff != "" {
					t.Errorf("rebuild %d (-followed +rebuilt):\n%s", i, diff)
				}
			}
			if n := count(t, pool, "posts"); n != 60 {
				t.Errorf("%d posts", n)
			}
		})
	}
}

// TestRepliesToWhatIsSkipped: replies to a skipped comment are top-level, whenever they are loaded and whenever the
// event is skipped.
func TestRepliesToWhatIsSkipped(t *testing.T) {
	t.Parallel()
	for name, during := range map[string]bool{"before the rebuild goes on": false, "while it loads": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t)
			p := projections.Posts{}
			random := seeded(1)
			append1(t, pool, comments(random, "before", 100)...)
			poison := events.PostID(integrationID, "poison")
			// The event can be decoded, but its row cannot be stored.
			testdb.Exec(t, pool, `ALTER TABLE posts ADD CONSTRAINT posts_lucky CHECK (chapter_number <> 913)`)
			testdb.Exec(t, pool, `INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, integration_id, event_source, event_type, data, personal, batch_id)
				VALUES ((SELECT max(log_index) + 1 FROM events), 'post', $1, 1, 'poison', $2, 'test', 'post.imported.v1',
				'{"novelId":"00000000-0000-0000-0000-000000000002",
				  "threadId":"00000000-0000-0000-0000-000000000003","chapterNumber":913,"writtenAt":"2026-01-01T00:00:00Z"}',
				'{"uuid":"user","username":"User","content":"text"}', gen_random_uuid())`, poison, integrationID)
			replies := comments(random, "after", 100)
			for i := range replies {
				if e, ok := replies[i].Event.(events.PostImported); ok && i%3 == 0 {
					e.ParentPostID = &poison
					replies[i].Event = e
				}
			}
			append1(t, pool, replies...)
			stop := follow(t, pool, p)
			testdb.Eventually(t, "the live projection has failed",
				func() bool { return status(t, pool, "posts").State == projections.Failed })
			skip := func() {
				if _, err := projections.Skip(t.Context(), pool, "posts", "staff:test", "damaged"); err != nil {
					t.Error(err)
				}
			}
			config := rebuild.Config{Pool: pool, Projection: p, ChunkSize: 10, Logger: quiet()}
			if during {
				var once sync.Once
				config.Progress = func(now rebuild.Progress) {
					if now.Done >= 10 {
						once.Do(skip)
					}
				}
			} else {
				var failed *rebuild.PoisonError
				if _, err := rebuild.Run(t.Context(), config); !errors.As(err, &failed) || failed.Delivery.ID != "poison" {
					t.Fatalf("the rebuild says %v", err)
				}
				skip()
			}
			mustRun(t, config)
			caughtUp(t, pool, "posts")
			stop()
			if n := count(t, pool, "posts"); n != 200 {
				t.Errorf("%d posts", n)
			}
			if below := testdb.Value[int](t, pool, `SELECT count(*) FROM posts WHERE root_post_id = $1 OR parent_post_id = $1 AND depth > 0`, poison); below > 0 {
				t.Errorf("%d comments stand below what was skipped", below)
			}
		})
	}
}

// TestPoisonOfNewCode: an event that only the new code cannot apply is found, wherever it is in a chunk, and all events
// before it are applied.
func TestPoisonOfNewCode(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	s := newStamped(t, pool, "sick")
	random := seeded(1)
	log := comments(random, "key", 300)
	append1(t, pool, log...)
	for _, i := range []int{0, 137, 199, 200, 299} {
		s.poison = log[i].ID
		_, err := rebuild.Run(t.Context(), rebuild.Config{Pool: pool, Projection: s, ChunkSize: 100, Logger: quiet()})
		var poison *rebuild.PoisonError
		if !errors.As(err, &poison) || poison.Delivery.ID != log[i].ID || poison.LogIndex != int64(i) {
			t.Errorf("event %d: %v", i, err)
		}
		if discarded := testdb.Must(rebuild.Discard(t.Context(), pool, s))(t); discarded.EventsDone != events.Position(i) {
			t.Errorf("event %d: %d events are applied", i, discarded.EventsDone)
		}
	}
	if n := count(t, pool, "sick"); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// TestPoisonAtTheEnd: an event that arrives during the switch is named, too.
func TestPoisonAtTheEnd(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	s := newStamped(t, pool, "late")
	s.poison = "last-3"
	random := seeded(1)
	append1(t, pool, comments(random, "first", 20)...)
	appended := false
	_, err := rebuild.Run(t.Context(), rebuild.Config{
		Pool: pool, Projection: s, Logger: quiet(),
		Progress: func(p rebuild.Progress) {
			if p.Done == 20 && !appended {
				appended = true
				append1(t, pool, comments(random, "last", 5)...)
			}
		},
	})
	var poison *rebuild.PoisonError
	if !errors.As(err, &poison) || poison.Delivery.ID != "last-3" {
		t.Errorf("got %v", err)
	}
	if n := count(t, pool, "late"); n != 0 {
		t.Errorf("%d rows", n)
	}
}
