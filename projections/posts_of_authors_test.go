package projections_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/events"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

// postsOfAuthorsSQL calls the function as statements must.
const postsOfAuthorsSQL = `SELECT p.author_id, p.post_id FROM posts p WHERE p.post_id = ANY ((SELECT posts_of_authors($1))::uuid[])`

// TestPostsOfAuthors: the function uses the index, also with the settings of readers, and on a table that was never
// analysed.
func TestPostsOfAuthors(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	pools, err := database.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pools.Close)
	log := longHistory(3)
	testdb.NoError(t, (projections.Posts{}).Apply(t.Context(), pools.General, log))
	asked := []uuid.UUID{
		testdb.AuthorID(partnersOf("world 0")[0], "a"), testdb.AuthorID(partnersOf("world 1")[1], "c"),
		testdb.AuthorID(partnersOf("world 0")[0], "nobody"),
	}
	want := map[uuid.UUID]uuid.UUID{}
	for _, recorded := range withoutErased(log) {
		if e, ok := recorded.Event.(events.PostImported); ok && e.Comment != nil {
			if id := testdb.AuthorID(e.IntegrationID, e.Comment.ExternalUUID); id == asked[0] || id == asked[1] {
				want[recorded.StreamID] = id
			}
		}
	}
	err = pgx.BeginFunc(t.Context(), pools.Read, func(tx pgx.Tx) error {
		rows, err := tx.Query(t.Context(), postsOfAuthorsSQL, asked)
		if err != nil {
			return err
		}
		got := map[uuid.UUID]uuid.UUID{}
		var author, post uuid.UUID
		if _, err := pgx.ForEachRow(rows, []any{&author, &post}, func() error {
			got[post] = author
			return nil
		}); err != nil {
			return err
		}
		if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
			t.Errorf("posts differ (-log +function):\n%s", diff)
		}
		var table, index int
		const scansSQL = `SELECT pg_stat_get_xact_tuples_returned('posts'::regclass), pg_stat_get_xact_numscans('posts_by_author'::regclass)`
		if err := tx.QueryRow(t.Context(), scansSQL).Scan(&table, &index); err != nil {
			return err
		}
		if table > 0 || index == 0 {
			t.Errorf("%d rows of the table were read without the index, which was scanned %d times", table, index)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestPostsOfAuthorsAfterAnExchange: a statement that waits for an exchange of the tables sees the new rows.
func TestPostsOfAuthorsAfterAnExchange(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	asked := []uuid.UUID{testdb.AuthorID(partnersOf("world 0")[0], "a")}
	exchange := testdb.Begin(t, pool)
	testdb.Exec(t, exchange, `LOCK TABLE posts IN ACCESS EXCLUSIVE MODE`)
	found := make(chan int, 1)
	go func() {
		rows, err := pool.Query(t.Context(), postsOfAuthorsSQL, asked)
		n := 0
		if err == nil {
			for rows.Next() {
				n++
			}
			err = rows.Err()
		}
		if err != nil {
			t.Error(err)
		}
		found <- n
	}()
	testdb.Eventually(t, "the statement waits", func() (waits bool) {
		// The table has the same oid in the databases of other tests.
		const waitsSQL = `SELECT EXISTS (SELECT FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
			WHERE d.datname = current_database() AND l.relation = 'posts'::regclass AND NOT l.granted)`
		if err := exchange.QueryRow(t.Context(), waitsSQL).Scan(&waits); err != nil {
			t.Error(err)
		}
		return waits
	})
	testdb.NoError(t, (projections.Posts{}).Apply(t.Context(), exchange, longHistory(3)))
	testdb.NoError(t, exchange.Commit(t.Context()))
	if n := <-found; n == 0 {
		t.Error("nothing was found of what had been written")
	}
}
