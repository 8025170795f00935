package projections_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// TestCopyOfWhatChanged: a copy that only asks for rows with a changed_at from its latest one on, and for erased
// authors, has the rows of the views, whatever was imported or decided in between, and although decisions about authors
// show before the projections have applied them.
func TestCopyOfWhatChanged(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	log := longHistory(12)
	copies := []*viewCopy{
		{view: "posts", key: "post_id", rows: map[string]copiedRow{}},
		{view: "authors", key: "author_id", rows: map[string]copiedRow{}},
		{view: "novels", key: "novel_id", rows: map[string]copiedRow{}},
	}
	random, applied, kinds := seeded(1), 0, map[string]bool{}
	for i := range log {
		kinds[log[i].Event.Type()] = true
		if e, ok := log[i].Event.(events.AuthorPostsHidden); ok {
			e.Until = log[i-1].RecordedAt
			log[i].Event = e
		}
		append1(t, pool, log[i])
		log[i].RecordedAt = testdb.Value[time.Time](t, pool, `SELECT max(recorded_at) FROM events`)
		applyBatch(t, pool, projections.AuthorDecisions{}, log[i:i+1])
		last := i == len(log)-1
		if random.IntN(4) == 0 || last {
			applyAsync(t, pool, log[applied:i+1])
			applied = i + 1
		}
		if random.IntN(6) == 0 || last {
			withdrawn := false
			for _, c := range copies {
				withdrawn = c.refresh(t, pool, withdrawn) || withdrawn
			}
		}
	}
	for _, c := range copies {
		want := c.read(t, pool, "")
		if diff := cmp.Diff(want, c.rows); diff != "" || len(want) == 0 {
			t.Errorf("%s: %d rows (-view +copy):\n%.3000s", c.view, len(want), diff)
		}
	}
	for _, e := range []events.Event{
		events.PostEdited{},
		events.PostWithdrawn{},
		events.PostHidden{},
		events.PostRestored{},
		events.AuthorLinked{},
		events.AuthorUnlinked{},
		events.AuthorBlocked{},
		events.AuthorUnblocked{},
		events.AuthorPostsHidden{},
		events.AuthorPostsRestored{},
		events.AuthorErased{},
		events.NovelUpdated{},
		events.NovelApproved{},
		events.NovelRejected{},
		events.NovelPublished{},
	} {
		if !kinds[e.Type()] {
			t.Errorf("no %s: this test has not shown what it should", e.Type())
		}
	}
}

// viewCopy is what an analyst copied from a view.
type viewCopy struct {
	view, key string
	rows      map[string]copiedRow // by key
	latest    time.Time            // changed_at
}

type copiedRow struct {
	JSON, Author          string
	ChangedAt, ReceivedAt time.Time // ReceivedAt only of comments
}

// refresh copies what has changed, as docs/analytics.md says, and reports whether a comment was withdrawn.
func (c *viewCopy) refresh(t *testing.T, pool *pgxpool.Pool, withdrawn bool) (withdraws bool) {
	t.Helper()
	if c.view == "authors" && withdrawn {
		c.rows = c.read(t, pool, "")
	}
	for id, row := range c.read(t, pool, fmt.Sprintf("WHERE changed_at >= '%s'", c.latest.Format(time.RFC3339Nano))) {
		c.rows[id] = row
		withdraws = withdraws || strings.Contains(row.JSON, `"withdrawn":true`)
		if row.ChangedAt.After(c.latest) {
			c.latest = row.ChangedAt
		}
	}
	rows := testdb.Must(pool.Query(t.Context(), `SELECT author_id::text, erased_at FROM analytics.erased`))(t)
	var author string
	var erasedAt time.Time
	_, err := pgx.ForEachRow(rows, []any{&author, &erasedAt}, func() error {
		if row, copied := c.rows[author]; copied && !row.ChangedAt.After(erasedAt) {
			delete(c.rows, author)
		}
		for id, row := range c.rows {
			if c.view == "posts" && row.Author == author && row.ReceivedAt.Before(erasedAt) {
				maps.Copy(c.rows, c.read(t, pool, fmt.Sprintf("WHERE post_id = '%s'", id)))
			}
		}
		return nil
	})
	testdb.NoError(t, err)
	return withdraws
}

func (c *viewCopy) read(t *testing.T, pool *pgxpool.Pool, where string) map[string]copiedRow {
	t.Helper()
	rows := testdb.Must(pool.Query(t.Context(), fmt.Sprintf(
		`SELECT %s::text, row_to_json(v)::text, changed_at, coalesce(to_json(v) ->> 'author_id', ''),
			coalesce((to_json(v) ->> 'received_at')::timestamptz, changed_at) FROM analytics.%s AS v %s`, c.key, c.view, where)))(t)
	found := map[string]copiedRow{}
	var id string
	var row copiedRow
	_, err := pgx.ForEachRow(rows, []any{&id, &row.JSON, &row.ChangedAt, &row.Author, &row.ReceivedAt}, func() error {
		found[id] = row
		return nil
	})
	testdb.NoError(t, err)
	return found
}

// TestChangesAreFound: a copy of what has changed reads a small part of a large table.
func TestChangesAreFound(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	testdb.Exec(t, pool, `INSERT INTO posts (post_id, thread_id, novel_id, integration_id, written_at, recorded_at, changed_at, log_index)
		SELECT md5(n::text)::uuid, '00000000-0000-0000-0000-000000000001', '00000000-0000-0000-0000-000000000001',
			'00000000-0000-0000-0000-000000000001', now(), now(), timestamptz '2026-01-01' + n * interval '1 second', n
		FROM generate_series(1, 20000) AS n`)
	testdb.Exec(t, pool, `SELECT brin_summarize_new_values('posts_changed')`)
	testdb.Exec(t, pool, `ANALYZE posts`)
	plan := strings.Join(testdb.Values[string](t, pool,
		`EXPLAIN SELECT * FROM analytics.posts WHERE changed_at >= '2026-01-01 05:33:00Z'`), "\n")
	if !strings.Contains(plan, "posts_changed") {
		t.Error(plan)
	}
}
