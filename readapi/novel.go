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

// Novel is a public novel, with the members of SPEC 2.1 and 2.2.
type Novel struct {
	ID            uuid.UUID   `json:"novelId"`
	Slug          string      `json:"slug"`
	URL           string      `json:"url"`
	DiscussionURL string      `json:"discussionUrl"`
	Title         string      `json:"novel"`
	Author        string      `json:"author"`
	Synopsis      string      `json:"synopsis"`
	CoverURL      string      `json:"coverUrl"`
	Genres        []string    `json:"genres"`
	Language      string      `json:"language"`
	ReadingStatus string      `json:"readingStatus"`
	State         novel.State `json:"state"`         // Approved or Published
	Platform      Text        `json:"platform"`      // name of the owning partner platform; "" for the host platform
	Posts         int         `json:"comments"`      // imported comments and replies, hidden and erased ones included
	LastPost      *time.Time  `json:"lastCommentAt"` // when the latest comment was written; nil without comments
}

// complete adds the addresses, and the stored details, which have names of members of Novel.
func (n *Novel) complete(a web.Addresses, details []byte) error {
	database.UTC(n.LastPost)
	n.URL, n.DiscussionURL = a.Novel(n.Slug), a.Discussion(n.Slug)
	if err := json.Unmarshal(details, n); err != nil {
		return fmt.Errorf("decode details of novel %s: %w", n.ID, err)
	}
	return nil
}

//go:embed novel.sql
var novelSQL string

// Novel returns the novel with a slug, which may be any text. It fails with ErrNotFound or ErrGone.
func (r *Reader) Novel(ctx context.Context, slug string) (Novel, error) {
	if !web.IsText(slug) {
		return Novel{}, ErrNotFound
	}
	n, err := queryOne(ctx, r.DB, func(row pgx.CollectableRow) (n Novel, err error) {
		var details []byte
		if err = row.Scan(&n.ID, &n.Slug, &n.Title, &n.State, &n.Platform, &details, &n.Posts, &n.LastPost); err == nil {
			err = n.complete(r.Addresses, details)
		}
		return n, err
	}, novelSQL, slug)
	if errors.Is(err, pgx.ErrNoRows) {
		return Novel{}, ErrNotFound
	}
	if err != nil {
		return Novel{}, fmt.Errorf("read novel: %w", err)
	}
	return n, checkPublic(n.State)
}

//go:embed chapters.sql
var chaptersSQL string

// Chapter is a chapter with the number of its comments.
type Chapter struct {
	Number ChapterNumber `json:"chapterNumber"`
	Posts  int           `json:"comments"` // hidden and erased ones included
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
