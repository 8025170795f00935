package testdb

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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

// FindWords lists the places in a database that contain one of the words: columns, as schema.table.column; planner
// statistics, as "statistics of schema.table.column"; and the dumped data of tables, as "pg_dump of schema.table".
// Words are printable ASCII without a backslash. If there is no suitable pg_dump (see Dump), dumps are not searched.
func FindWords(t testing.TB, databaseURL string, words ...string) []string {
	t.Helper()
	conn := Connect(t, databaseURL)
	defer func() { _ = conn.Close(context.Background()) }()
	var held []string
	for _, column := range Values[[]string](t, conn, columnsSQL) {
		if Value[bool](t, conn, column[1], words) {
			held = append(held, column[0])
		}
	}
	held = append(held, Values[string](t, conn, sampledSQL, words)...)
	if dump, ok := Dump(t, databaseURL); ok {
		held = append(held, findInDump(dump, words)...)
	}
	return held
}

// Dump returns the output of pg_dump for a database: plain text, all schemas. It uses the pg_dump beside the server's
// programs, or one on PATH; false when none is as new as the server.
func Dump(t testing.TB, databaseURL string) ([]byte, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), statementTimeout)
	defer cancel()
	conn := Connect(t, databaseURL)
	defer func() { _ = conn.Close(ctx) }()
	programs := []string{"pg_dump"}
	var bindir string // unknown if the role may not read it
	if err := conn.QueryRow(ctx, `SELECT setting FROM pg_config WHERE name = 'BINDIR'`).Scan(&bindir); err == nil {
		programs = append([]string{filepath.Join(bindir, "pg_dump")}, programs...)
	}
	for _, program := range programs {
		var output bytes.Buffer
		cmd := exec.CommandContext(ctx, program, "--format=plain", "--dbname="+databaseURL) //nolint:gosec // found as a shell would
		cmd.Stderr = &output
		switch dump, err := cmd.Output(); {
		case err == nil:
			return dump, true
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, exec.ErrNotFound) &&
			!strings.Contains(output.String(), "server version mismatch"):
			t.Fatalf("testdb: %s: %v\n%s", program, err, &output)
		}
	}
	t.Log("there is no pg_dump for this server")
	return nil, false
}

// findInDump lists the tables whose dumped data contains one of the words, as text or as bytes in hexadecimal digits.
func findInDump(dump []byte, words []string) (held []string) {
	sought := make([][]byte, 0, 2*len(words))
	for _, word := range words {
		sought = append(sought, []byte(word), []byte(hex.EncodeToString([]byte(word))))
	}
	table := "the schema"
	for line := range bytes.Lines(dump) {
		if rest, ok := bytes.CutPrefix(line, []byte("COPY ")); ok {
			name, _, _ := strings.Cut(string(rest), " ")
			table = name
		}
		if slices.ContainsFunc(sought, func(word []byte) bool { return bytes.Contains(line, word) }) &&
			!slices.Contains(held, "pg_dump of "+table) {
			held = append(held, "pg_dump of "+table)
		}
		if bytes.HasPrefix(line, []byte(`\.`)) {
			table = "the schema"
		}
	}
	return held
}
