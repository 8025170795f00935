package staff

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/events/eventlog"
	"novelgate/internal/title"
)

// NovelFilter says which novels to list. The zero value is all of them.
type NovelFilter struct {
	State novel.State   // "" for every state
	Owner uuid.NullUUID // an integration; uuid.Nil for the host platform
	Text  string        // in the title, whatever the case
	After string        // title of the last novel of the page before
	Limit int           // 1 or more
}

const listNovelsSQL = novelColumns + `
WHERE ($1 = '' OR state = $1) AND ($2::uuid IS NULL OR owner_id = $2 OR ($2 = '00000000-0000-0000-0000-000000000000' AND owner_id IS NULL))
  AND ($3 = '' OR strpos(folded_title, $3) > 0) AND folded_title > $4
ORDER BY folded_title LIMIT $5`

// ListNovels lists novels by folded title.
func (s *Staff) ListNovels(ctx context.Context, f NovelFilter) ([]Novel, error) {
	return list(ctx, s, "novels", scanNovel, listNovelsSQL, string(f.State), f.Owner, title.Fold(f.Text), title.Fold(f.After), f.Limit)
}

// NovelByID finds a novel by its id; ErrNoSuchNovel when there is none.
func (s *Staff) NovelByID(ctx context.Context, id uuid.UUID) (Novel, error) {
	return find(ctx, s, "novel", fmt.Errorf("%w: %s", ErrNoSuchNovel, id), scanNovel, novelColumns+` WHERE novel_id = $1`, id)
}

// NovelHistory returns what happened to a novel, oldest first.
func (s *Staff) NovelHistory(ctx context.Context, id uuid.UUID) ([]HistoryEntry, error) {
	recorded, err := eventlog.ReadStream(ctx, s.Pool, id, 0)
	if err != nil {
		return nil, err
	}
	return historyOf(recorded), nil
}
