package readapi_test

import (
	"bytes"
	"cmp"
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/internal/database"
	"novelgate/readapi"
)

// scales measures live memory while rows are read.
type scales struct {
	database.Querier
	rows int
	most uint64
}

func (s *scales) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := s.Querier.Query(ctx, sql, args...)
	return &weighed{rows, s}, err
}

type weighed struct {
	pgx.Rows
	*scales
}

func (w *weighed) Next() bool {
	if w.rows++; w.rows%5000 == 0 {
		w.most = max(w.most, alive())
	}
	return w.Rows.Next()
}

func alive() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// TestALongHistoryTakesNoMemory reads a past state of a novel that was changed 20,000 times. It runs alone, because it
// measures the process.
func TestALongHistoryTakesNoMemory(t *testing.T) {
	w := newWorld(t)
	novel := w.novel(t, "A", nil)
	const changes = 20_000
	w.exec(t, `INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, actor, batch_id)
SELECT (SELECT max(log_index) + 1 FROM events) + n, 'novel', $1, n + 2, gen_random_uuid()::text, 'test',
    'novel.updated.v1', json_build_object('synopsis', repeat('x', 1000) || n), 'test', gen_random_uuid()
FROM generate_series(0, $2::int - 1) n`, novel, changes)
	w.versions[novel] += changes
	last := w.append(t, events.NovelStream, novel, events.NovelUpdated{Author: new("Ida Verne")})
	w.append(t, events.NovelStream, novel, events.NovelUpdated{Author: new("Nobody")})

	db := &scales{Querier: w.Read}
	reader := &readapi.Reader{DB: db}
	before := alive()
	got, err := reader.Novel(t.Context(), "a", &last.RecordedAt)
	if err != nil || got.Author != "Ida Verne" || len(got.Synopsis) != 1005 {
		t.Fatalf("%q, %d characters, %v", got.Author, len(got.Synopsis), err)
	}
	if db.rows < changes || db.most > before+4<<20 {
		t.Errorf("%d rows: %d bytes at first, %d at most", db.rows, before, db.most)
	}
	if _, err := reader.Novel(t.Context(), "a", new(last.RecordedAt.Add(-time.Hour))); err != readapi.ErrNotFound { //nolint:errorlint // it is returned as it is
		t.Errorf("before there was anything: %v", err)
	}
}

// naivePost is a comment in a fold of the log.
type naivePost struct {
	id        uuid.UUID
	parent    *uuid.UUID
	root      uuid.UUID
	depth     int
	writtenAt time.Time
	content   string
	name      string
}

// naiveDiscussion folds the log up to a time: the comments on a novel by identifier, with the authors' names at that
// time.
func naiveDiscussion(log []events.Recorded, novel uuid.UUID, asOf time.Time) map[uuid.UUID]naivePost {
	posts := map[uuid.UUID]naivePost{}
	names := map[string]events.PostImported{}
	author := map[uuid.UUID]string{}
	for _, recorded := range log {
		e, ok := recorded.Event.(events.PostImported)
		if !ok || recorded.RecordedAt.After(asOf) {
			continue
		}
		if latest, known := names[e.Comment.ExternalUUID]; !known || !e.WrittenAt.Before(latest.WrittenAt) {
			names[e.Comment.ExternalUUID] = e
		}
		if e.NovelID != novel {
			continue
		}
		p := naivePost{
			id: recorded.StreamID, parent: e.ParentPostID, root: recorded.StreamID, writtenAt: e.WrittenAt,
			content: e.Comment.Content,
		}
		if p.parent != nil {
			p.root, p.depth = posts[*p.parent].root, posts[*p.parent].depth+1
		}
		posts[p.id], author[p.id] = p, e.Comment.ExternalUUID
	}
	for id, p := range posts {
		p.name = names[author[id]].Comment.Username
		posts[id] = p
	}
	return posts
}

// tops returns the top-level comments in the order of writing.
func tops(posts map[uuid.UUID]naivePost, newest bool) []uuid.UUID {
	var found []naivePost
	for _, p := range posts {
		if p.depth == 0 {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b naivePost) int {
		return cmp.Or(a.writtenAt.Compare(b.writtenAt), bytes.Compare(a.id[:], b.id[:]))
	})
	if newest {
		slices.Reverse(found)
	}
	ids := []uuid.UUID{}
	for _, p := range found {
		ids = append(ids, p.id)
	}
	return ids
}

// naiveNovel folds a novel's history up to a time; false before it existed.
func naiveNovel(log []events.Recorded, novel uuid.UUID, asOf time.Time) (author, synopsis string, exists bool) {
	for _, recorded := range log {
		if recorded.StreamID != novel || recorded.RecordedAt.After(asOf) {
			continue
		}
		switch e := recorded.Event.(type) {
		case events.NovelCreated:
			author, synopsis, exists = e.Author, e.Synopsis, true
		case events.NovelUpdated:
			if e.Author != nil {
				author = *e.Author
			}
			if e.Synopsis != nil {
				synopsis = *e.Synopsis
			}
		default: // changes neither
		}
	}
	return author, synopsis, exists
}
