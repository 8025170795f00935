package testdb_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/testdb"
)

// TestFindWords finds a word in text, JSON and bytes of any schema, and in planner statistics; without one, nothing.
func TestFindWords(t *testing.T) {
	t.Parallel()
	url := testdb.NewEmpty(t)
	conn := testdb.Must(pgx.Connect(t.Context(), url))(t)
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), `CREATE SCHEMA other;
		CREATE TABLE plain (id integer, words text); INSERT INTO plain VALUES (1, 'it is Planted here');
		CREATE TABLE other.bytes (id integer, held bytea); INSERT INTO other.bytes
		    VALUES (1, convert_to('it is Planted here', 'UTF8'));
		CREATE TABLE other.object (held json); INSERT INTO other.object VALUES ('{"words":"too/planted"}');
		CREATE TABLE sampled (common text, scattered text, bytes bytea, list text[]);
		INSERT INTO sampled SELECT 'Planted', CASE n WHEN 1 THEN 'Planted' ELSE n::text END, convert_to('Planted', 'UTF8'),
		    '{Planted,as,one,of,many}'
			FROM generate_series(1, 200) AS n;
		ANALYZE sampled; DELETE FROM sampled;
		CREATE TABLE innocent (words text); INSERT INTO innocent VALUES ('planted, Plante'), ('planted, Plante'); ANALYZE innocent`); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"other.bytes.held", "other.object.held", "public.plain.words",
		"statistics of public.sampled.bytes", "statistics of public.sampled.common", "statistics of public.sampled.list",
		"statistics of public.sampled.scattered",
	}
	if diff := cmp.Diff(want, testdb.FindWords(t, url, "Planted", "too/planted")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if held := testdb.FindWords(t, url, "nobody wrote this"); len(held) > 0 {
		t.Errorf("found in %v", held)
	}
}
