package migrations_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/testdb"
)

// TestStoredRepliesArePlaced runs the part of step 00012 that changes rows on comments that were stored before it.
func TestStoredRepliesArePlaced(t *testing.T) {
	t.Parallel()
	step, err := os.ReadFile("00012_reading.sql")
	if err != nil {
		t.Fatal(err)
	}
	update := regexp.MustCompile(`(?s)WITH RECURSIVE.*?;`).Find(step)
	conn, err := pgx.Connect(t.Context(), testdb.New(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	// 2 and 3 answer 1, 4 answers 3, 5 answers 4; 6 stands alone; 7 answers what was never imported, and 8 answers 7.
	for _, statement := range []string{
		`INSERT INTO posts (post_id, thread_id, novel_id, integration_id, parent_post_id, written_at, recorded_at, event_id)
		 SELECT md5(id)::uuid, md5('t')::uuid, md5('n')::uuid, md5('i')::uuid, md5(parent)::uuid, now(), now(), id
		 FROM unnest(ARRAY['1','2','3','4','5','6','7','8'], ARRAY[NULL,'1','1','3','4',NULL,'none','7']) AS p (id, parent)`,
		string(update),
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	rows, err := conn.Query(t.Context(), `SELECT p.event_id || ' ' || coalesce(r.event_id, '-') || ' ' || p.depth
		FROM posts p LEFT JOIN posts r ON r.post_id = p.root_post_id ORDER BY p.event_id`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1 - 0", "2 1 1", "3 1 1", "4 1 2", "5 1 3", "6 - 0", "7 - 0", "8 7 1"},
		got); diff != "" {
		t.Errorf("comment, top-level comment, depth (-want +got):\n%s", diff)
	}
}
