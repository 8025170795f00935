package testdb

import (
	"context"
	"testing"
)

// columnsSQL lists every stored column, each with a query that reports whether it contains one of the words $1.
const columnsSQL = `SELECT ARRAY[concat_ws('.', n.nspname, c.relname, a.attname),
    format('SELECT EXISTS (SELECT FROM %I.%I, unnest($1::text[]) AS word WHERE ' || CASE a.atttypid
        WHEN 'bytea'::regtype THEN 'position(convert_to(word, ''UTF8'') IN %I)' ELSE 'strpos(%I::text, word)'
    END || ' > 0)', n.nspname, c.relname, a.attname)]
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'm') AND a.attnum > 0 AND NOT a.attisdropped AND n.nspname <> 'information_schema'
    AND n.nspname !~ '^pg_'
ORDER BY n.nspname, c.relname, a.attname`

// sampledSQL lists the columns and expressions whose planner statistics contain one of the words, as text or as printed
// bytes. $1: words.
const sampledSQL = `SELECT format('statistics of %s.%s.%s', s.schemaname, s.tablename, s.attname)
FROM pg_stats AS s, concat_ws(' ', s.most_common_vals::text, s.histogram_bounds::text,
    s.most_common_elems::text) AS samples
WHERE s.schemaname <> 'information_schema' AND s.schemaname !~ '^pg_' AND EXISTS (
    SELECT FROM unnest($1::text[]) AS word
    WHERE strpos(samples, word) > 0 OR strpos(samples, encode(convert_to(word, 'UTF8'), 'hex')) > 0)
ORDER BY 1`

// FindWords lists the places in a database that contain one of the words: columns, as schema.table.column; and planner
// statistics, as "statistics of schema.table.column". Words are printable ASCII without a backslash.
func FindWords(t testing.TB, databaseURL string, words ...string) (held []string) {
	t.Helper()
	conn := Connect(t, databaseURL)
	defer func() { _ = conn.Close(context.Background()) }()
	for _, column := range Values[[]string](t, conn, columnsSQL) {
		if Value[bool](t, conn, column[1], words) {
			held = append(held, column[0])
		}
	}
	return append(held, Values[string](t, conn, sampledSQL, words)...)
}
