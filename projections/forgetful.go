package projections

// Forgetful is implemented by a projection whose tables keep something of authors who were erased since. The log has lost that,
// so a replay does not come to it.
type Forgetful interface {
	Projection
	// WithoutAuthors returns, by table, a query for its rows without what is of some authors, $1::uuid[]. Its columns are those of
	// the table. Tables that keep nothing of the kind are left out.
	WithoutAuthors() map[string]string
}

// How the tables of activity look without some authors: every count of distinct authors is one of rows of daily_authors, so what is
// of an author can be taken off.
const (
	dailyAuthorsWithoutSQL = `SELECT author_id, novel_id, day, integration_id FROM daily_authors WHERE author_id <> ALL ($1::uuid[])`

	dailyFactsWithoutSQL = `SELECT f.day, f.integration_id, f.novel_id, f.posts, f.authors - coalesce(w.authors, 0) AS authors, f.novels_created, f.novels_updated
FROM daily_facts AS f
LEFT JOIN (
    SELECT day, integration_id, novel_id, count(*) AS authors FROM daily_authors WHERE author_id = ANY ($1::uuid[]) GROUP BY day, integration_id, novel_id
) AS w USING (day, integration_id, novel_id)`

	threadActivityWithoutSQL = `SELECT t.thread_id, t.novel_id, t.posts, t.replies, t.participants - coalesce(w.authors, 0) AS participants,
       t.first_post_id, t.first_post_at, t.last_post_id, t.last_post_at, t.first_received_at, t.last_received_at
FROM thread_activity AS t
LEFT JOIN (
    SELECT novel_id, count(DISTINCT author_id) AS authors FROM daily_authors WHERE author_id = ANY ($1::uuid[]) GROUP BY novel_id
) AS w USING (novel_id)`

	integrationActivityWithoutSQL = `SELECT i.integration_id, i.posts, i.replies, i.authors - coalesce(w.authors, 0) AS authors,
       i.novels_created, i.novels_updated, i.first_activity_at, i.last_activity_at
FROM integration_activity AS i
LEFT JOIN (
    SELECT integration_id, count(DISTINCT author_id) AS authors FROM daily_authors WHERE author_id = ANY ($1::uuid[]) GROUP BY integration_id
) AS w USING (integration_id)`
)

// WithoutAuthors implements Forgetful.
func (Activity) WithoutAuthors() map[string]string {
	return map[string]string{
		"daily_authors": dailyAuthorsWithoutSQL, "daily_facts": dailyFactsWithoutSQL,
		"thread_activity": threadActivityWithoutSQL, "integration_activity": integrationActivityWithoutSQL,
	}
}
