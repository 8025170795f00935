package readapi

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/aggregates/novel"
	"novelgate/internal/database"
	"novelgate/internal/web"
)

// Novel is a public novel.
type Novel struct {
	ID       uuid.UUID
	Slug     string
	Title    string
	State    novel.State // Approved or Published
	Platform string      // name of the owning partner platform; "" for the host platform
	Posts    int         // imported comments and replies, hidden and erased ones included
	LastPost *time.Time  // when the latest comment was written; nil without comments
	novel.Details
}

//go:embed novel.sql
var novelSQL string

// Novel returns the novel with a slug, which may be any text. It fails with ErrNotFound or ErrGone.
func (r *Reader) Novel(ctx context.Context, slug string) (Novel, error) {
	if !web.IsText(slug) {
		return Novel{}, ErrNotFound
	}
	n, err := queryOne(ctx, r.DB, scanNovel, novelSQL, slug)
	if errors.Is(err, pgx.ErrNoRows) {
		return Novel{}, ErrNotFound
	}
	if err != nil {
		return Novel{}, fmt.Errorf("read novel: %w", err)
	}
	return n, checkPublic(n.State)
}

// scanNovel reads a row of novel.sql.
func scanNovel(row pgx.CollectableRow) (Novel, error) {
	var n Novel
	var details []byte
	if err := row.Scan(&n.ID, &n.Slug, &n.Title, &n.State, &n.Platform, &details, &n.Posts, &n.LastPost); err != nil {
		return Novel{}, fmt.Errorf("scan novel: %w", err)
	}
	if err := json.Unmarshal(details, &n.Details); err != nil {
		return Novel{}, fmt.Errorf("decode details of novel %s: %w", n.ID, err)
	}
	return n, nil
}

//go:embed chapters.sql
var chaptersSQL string

// Chapter is a chapter with the number of its comments.
type Chapter struct {
	Number string // decimal
	Posts  int    // hidden and erased ones included
}

// ChaptersShown is the maximum number of chapters that Chapters returns.
const ChaptersShown = 20

const chaptersExamined = 1000

// Chapters returns the most discussed of the first 1,000 chapters with comments of a novel, sorted by number.
func (r *Reader) Chapters(ctx context.Context, novelID uuid.UUID) ([]Chapter, error) {
	all, err := database.Collect(ctx, r.DB, "chapters", pgx.RowToStructByPos[Chapter], chaptersSQL, novelID,
		chaptersExamined)
	if err != nil || len(all) <= ChaptersShown {
		return all, err
	}
	most := slices.Clone(all)
	slices.SortStableFunc(most, func(a, b Chapter) int { return cmp.Compare(b.Posts, a.Posts) })
	return slices.DeleteFunc(all, func(c Chapter) bool { return !slices.Contains(most[:ChaptersShown], c) }), nil
}
