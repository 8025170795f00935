package projections_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
)

// assertTables fails unless posts and authors hold what the log says, and analysts see the texts.
func assertTables(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	log := readAll(t, pool)
	if diff := modelsDiff(t, pool, log, "posts", "authors"); diff != "" {
		t.Error(diff)
	}
	hidden := map[uuid.UUID]bool{}
	for _, recorded := range log {
		switch recorded.Event.(type) {
		case events.PostHidden:
			hidden[recorded.StreamID] = true
		case events.PostRestored:
			hidden[recorded.StreamID] = false
		default: // says nothing about that
		}
	}
	want := map[uuid.UUID]string{}
	for _, recorded := range log {
		if e, ok := recorded.Event.(events.PostImported); ok && e.Comment != nil && !hidden[recorded.StreamID] {
			want[recorded.StreamID] = recorded.ID + ": " + e.Comment.Content
		}
	}
	if diff := cmp.Diff(want, readTexts(t, pool)); diff != "" {
		t.Errorf("texts differ (-log +view):\n%.2000s", diff)
	}
}

// readTexts returns the keys and texts that analysts see.
func readTexts(t testing.TB, pool *pgxpool.Pool) map[uuid.UUID]string {
	t.Helper()
	rows, err := pool.Query(context.Background(),
		`SELECT post_id, idempotency_key || ': ' || content FROM analytics.posts WHERE content IS NOT NULL`)
	if err != nil {
		t.Fatalf("read texts: %v", err)
	}
	texts := map[uuid.UUID]string{}
	var id uuid.UUID
	var text string
	if _, err := pgx.ForEachRow(rows, []any{&id, &text}, func() error {
		texts[id] = text
		return nil
	}); err != nil {
		t.Fatalf("read texts: %v", err)
	}
	return texts
}
