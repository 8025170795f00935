package readapi_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/internal/database"
	"novelgate/readapi"
)

// scales weighs what is alive while rows are read.
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

// TestALongHistoryTakesNoMemory looks back at a novel that was changed 20,000 times. It runs alone: others would be
// weighed, too.
func TestALongHistoryTakesNoMemory(t *testing.T) {
	w := newWorld(t)
	novel := w.novel(t, "A", nil)
	const changes = 20_000
	w.exec(t, `INSERT INTO events (position, stream_type, stream_id, stream_version, event_id, event_source, event_type, data, actor, batch_id)
SELECT n, 'novel', $1, n + 2, gen_random_uuid()::text, 'test', 'novel.updated.v1',
    json_build_object('synopsis', repeat('x', 1000) || n), 'test', gen_random_uuid()
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
