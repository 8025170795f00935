package readapi

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
)

// Activity is the latest activity on the whole platform.
type Activity struct {
	Latest    []PostOnNovel    // the latest visible comments, one of each novel
	Discussed []DiscussedNovel // the novels with the most comments in the last seven days, most first
}

// DiscussedNovel is a novel with the number of its comments in the last seven days.
type DiscussedNovel struct {
	Novel Heading
	Posts int
}

const (
	latestShown       = 6   // number of comments in Activity
	discussedShown    = 5   // number of novels in Activity
	discussedExamined = 300 // number of novels whose comments are counted
	discussedDays     = 7   // UTC days, with the current one
)

//go:embed discussed.sql
var discussedSQL string

// Activity reads the activity up to now. Discussed considers only the 300 novels with the latest comments.
func (r *Reader) Activity(ctx context.Context, now time.Time) (found Activity, err error) {
	if found.Latest, err = r.Latest(ctx, latestShown); err != nil {
		return found, err
	}
	most, err := r.mostDiscussed(ctx, now)
	if err != nil {
		return found, err
	}
	scan := func(row pgx.CollectableRow) (d DiscussedNovel, err error) {
		n := &d.Novel
		err = row.Scan(&n.ID, &n.Slug, &n.Title, &n.Language, &n.CoverURL, &d.Posts)
		return d, err
	}
	found.Discussed, err = database.Collect(ctx, r.DB, "most discussed novels", scan, headingsSQL, most.novels, most.posts,
		discussedShown)
	return found, err
}

// ranking holds the most discussed novels as counted at one moment, up to twice as many as Activity shows, because
// staff may reject some while it is cached.
type ranking struct {
	at     time.Time
	novels []uuid.UUID // most comments first
	posts  []int32     // number of comments on each
}

// rankingTTL is the time for which a ranking is cached. Making one reads seven counters of each of 300 novels, which
// takes most of the time of a start page.
const rankingTTL = time.Minute

// headingsSQL returns the headings of ranked novels. $1: novels; $2: their numbers of comments; $3: limit.
const headingsSQL = `SELECT n.novel_id, n.slug, n.title, coalesce(n.details ->> 'language', ''),
       coalesce(n.details ->> 'coverUrl', ''), k.posts
FROM unnest($1::uuid[], $2::integer[]) WITH ORDINALITY AS k (novel_id, posts, place)
JOIN title_lookup n ON n.novel_id = k.novel_id
WHERE n.state IN ('approved', 'published') ORDER BY k.place LIMIT $3`

// mostDiscussed returns the cached ranking, or a new one if the cached one is a minute old. Concurrent requests may
// each make one.
func (r *Reader) mostDiscussed(ctx context.Context, now time.Time) (*ranking, error) {
	if cached := r.ranking.Load(); cached != nil && now.Sub(cached.at).Abs() < rankingTTL {
		return cached, nil
	}
	since := now.UTC().AddDate(0, 0, 1-discussedDays) // the day of now is one of them
	counted := ranking{at: now, novels: []uuid.UUID{}, posts: []int32{}}
	// ForEachRow returns its error
	rows, _ := r.DB.Query(ctx, discussedSQL, since.Format(time.DateOnly), discussedExamined, 2*discussedShown)
	var novel uuid.UUID
	var posts int32
	if _, err := pgx.ForEachRow(rows, []any{&novel, &posts}, func() error {
		counted.novels, counted.posts = append(counted.novels, novel), append(counted.posts, posts)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("count comments on novels: %w", err)
	}
	// Do not cache a short ranking: it is cheap to make, and on a platform with few comments each comment changes it.
	if len(counted.novels) == 2*discussedShown {
		r.ranking.Store(&counted)
	}
	return &counted, nil
}
