package readapi

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Activity is the latest activity on the whole platform.
type Activity struct {
	Latest    []Single    // the latest visible comments, one of each novel
	Discussed []Discussed // the novels with most comments in the last seven days, most first
}

// Discussed is a novel with the number of its comments in the last seven days.
type Discussed struct {
	Novel Heading
	Posts int
}

// Limits on Activity and on the novels that it examines.
const (
	latestShown                       = 6
	discussedShown, discussedExamined = 5, 300
	discussedDays                     = 7
)

var (
	//go:embed latest.sql
	latestSQL string
	//go:embed discussed.sql
	discussedSQL string
	//go:embed sitemap.sql
	sitemapSQL string
	//go:embed chapters.sql
	chaptersSQL string
)

// Activity reads the activity up to now. Discussed considers only the 300 novels with the latest comments.
func (r *Reader) Activity(ctx context.Context, now time.Time) (Activity, error) {
	var found Activity
	var err error
	if found.Latest, err = r.Latest(ctx, latestShown); err != nil {
		return found, err
	}

	since := now.UTC().AddDate(0, 0, 1-discussedDays)
	// CollectRows returns its error
	rows, _ := r.DB.Query(ctx, discussedSQL, since.Format(time.DateOnly), discussedExamined, discussedShown)
	found.Discussed, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (d Discussed, err error) {
		n := &d.Novel
		err = row.Scan(&n.ID, &n.Slug, &n.Title, &n.Language, &n.CoverURL, &d.Posts)
		return d, err
	})
	if err != nil {
		return found, fmt.Errorf("read most discussed novels: %w", err)
	}
	return found, nil
}

// Latest returns up to n comments, the last ones written, one of each novel. It reads twice as many, and leaves out
// hidden and erased ones.
func (r *Reader) Latest(ctx context.Context, n int) ([]Single, error) {
	rows, _ := r.DB.Query(ctx, latestSQL, 2*n) // CollectRows returns its error
	latest, err := pgx.CollectRows(rows, scanSingle)
	if err != nil {
		return nil, fmt.Errorf("read latest comments: %w", err)
	}
	latest = slices.DeleteFunc(latest, func(s Single) bool { return s.Post.Hidden || s.Post.Erased })
	return latest[:min(len(latest), n)], nil
}

// sitemapNovels limits Slugs: a sitemap has at most 50,000 addresses, two of each novel.
const sitemapNovels = 25_000

// Slugs returns the slugs of the public novels whose id starts with the byte begin.
func (r *Reader) Slugs(ctx context.Context, begin byte) ([]string, error) {
	from, to := uuid.UUID{begin}, uuid.Max
	to[0] = begin
	rows, _ := r.DB.Query(ctx, sitemapSQL, from, to, sitemapNovels) // CollectRows returns its error
	slugs, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read sitemap: %w", err)
	}
	return slugs, nil
}

// Chapter is a chapter with the number of its comments.
type Chapter struct {
	Number string // decimal
	Posts  int    // hidden and erased ones included
}

// ChaptersShown limits Chapters.
const ChaptersShown = 20

const chaptersExamined = 1000

// Chapters returns the most discussed of the first 1,000 chapters of a novel, sorted by number.
func (r *Reader) Chapters(ctx context.Context, novelID uuid.UUID) ([]Chapter, error) {
	rows, _ := r.DB.Query(ctx, chaptersSQL, novelID, chaptersExamined) // CollectRows returns its error
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Chapter, err error) {
		err = row.Scan(&c.Number, &c.Posts)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("read chapters: %w", err)
	}
	if len(all) <= ChaptersShown {
		return all, nil
	}
	most := slices.Clone(all)
	slices.SortStableFunc(most, func(a, b Chapter) int { return cmp.Compare(b.Posts, a.Posts) })
	least := most[ChaptersShown-1].Posts
	shown := slices.DeleteFunc(all, func(c Chapter) bool { return c.Posts < least })
	return shown[:min(len(shown), ChaptersShown)], nil
}
