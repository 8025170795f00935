package projections

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
	"novelgate/internal/database"
)

//go:embed threads_insert.sql
var threadsInsertSQL string

// Threads is the inline projection threads: the discussion thread of each novel.
type Threads struct{}

// Name implements Projection.
func (Threads) Name() string { return "threads" }

// Generation implements Projection.
func (Threads) Generation() int { return 1 }

// Tables implements Projection.
func (Threads) Tables() []string { return []string{"threads"} }

// Streams implements Selective.
func (Threads) Streams() []string { return []string{events.ThreadStream} }

// Apply implements Projection.
func (Threads) Apply(ctx context.Context, tx database.Execer, batch []events.Recorded) error {
	type opened struct{ novelID, threadID uuid.UUID }
	var rows []opened
	for _, recorded := range batch {
		if e, ok := recorded.Event.(events.ThreadOpened); ok {
			rows = append(rows, opened{e.NovelID, recorded.StreamID})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	slices.SortFunc(rows, func(a, b opened) int { return bytes.Compare(a.novelID[:], b.novelID[:]) })
	var novels, threads []pgtype.UUID
	for _, row := range rows {
		novels = append(novels, pgtype.UUID{Bytes: row.novelID, Valid: true})
		threads = append(threads, pgtype.UUID{Bytes: row.threadID, Valid: true})
	}
	if _, err := tx.Exec(ctx, threadsInsertSQL, novels, threads); err != nil {
		return fmt.Errorf("insert threads: %w", err)
	}
	return nil
}
