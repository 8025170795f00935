package readapi

import (
	"context"
	_ "embed"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
)

// Activity is the latest activity on the whole platform.
type Activity struct {
	Latest    []PostOnNovel    `json:"latest"`    // the latest visible comments, one of each novel
	Discussed []DiscussedNovel `json:"discussed"` // the most discussed novels of the last seven days
}

// DiscussedNovel is a novel with the number of its comments in the last seven days.
type DiscussedNovel struct {
	Heading `json:",inline"`

	Posts int `json:"comments"`
}

const (
	latestShown       = 6   // number of comments in Activity
	discussedShown    = 5   // number of novels in Activity
	discussedExamined = 300 // number of novels whose comments are counted, those with the latest comments
	discussedDays     = 7   // UTC days, with the current one
)

var (
	//go:embed discussed.sql
	discussedSQL string
	//go:embed sitemaps.sql
	sitemapsSQL string
	//go:embed sitemap.sql
	sitemapSQL string
)

// Activity reads the activity up to now.
func (r *Reader) Activity(ctx context.Context, now time.Time) (found Activity, err error) {
	if found.Latest, err = r.Latest(ctx, latestShown); err != nil {
		return found, err
	}
	since := now.UTC().AddDate(0, 0, 1-discussedDays) // the day of now is one of them
	found.Discussed, err = database.Collect(ctx, r.DB, "most discussed novels",
		func(row pgx.CollectableRow) (d DiscussedNovel, err error) {
			err = row.Scan(&d.ID, &d.Slug, &d.Title, &d.Language, &d.CoverURL, &d.Posts)
			d.URL = r.Addresses.Novel(d.Slug)
			return d, err
		}, discussedSQL, since.Format(time.DateOnly), discussedExamined, discussedShown)
	return found, err
}

// SitemapParts returns the bytes with which ids of public novels begin, in ascending order.
func (r *Reader) SitemapParts(ctx context.Context) ([]byte, error) {
	return database.Collect(ctx, r.DB, "parts of the sitemap", func(row pgx.CollectableRow) (byte, error) {
		part, err := pgx.RowTo[int](row)
		return byte(part), err //nolint:gosec // at most 255
	}, sitemapsSQL)
}

// sitemapNovels limits Slugs: a sitemap has at most 50,000 addresses, two of each novel and a few others.
const sitemapNovels = 24_000

// Slugs returns the slugs of the public novels whose id starts with the byte begin.
func (r *Reader) Slugs(ctx context.Context, begin byte) ([]string, error) {
	from, to := uuid.UUID{begin}, uuid.Max
	to[0] = begin
	return database.Collect(ctx, r.DB, "sitemap", pgx.RowTo[string], sitemapSQL, from, to, sitemapNovels)
}
