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

// columnsSQL lists every column in which something is stored, each with a query that says whether it holds one of the
// words $1.
const columnsSQL = `SELECT ARRAY[concat_ws('.', n.nspname, c.relname, a.attname),
    format('SELECT EXISTS (SELECT FROM %I.%I, unnest($1::text[]) AS word WHERE ' || CASE a.atttypid
        WHEN 'bytea'::regtype THEN 'position(convert_to(word, ''UTF8'') IN %I)' ELSE 'strpos(%I::text, word)'
    END || ' > 0)', n.nspname, c.relname, a.attname)]
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'm') AND a.attnum > 0 AND NOT a.attisdropped AND n.nspname <> 'information_schema'
    AND n.nspname !~ '^pg_'
ORDER BY n.nspname, c.relname, a.attname`

// sampledSQL lists the columns and expressions of which the planner's statistics hold one of the words, as they are or
// as bytes are printed. $1: words.
const sampledSQL = `SELECT format('statistics of %s.%s.%s', s.schemaname, s.tablename, s.attname)
FROM pg_stats AS s, concat_ws(' ', s.most_common_vals::text, s.histogram_bounds::text,
    s.most_common_elems::text) AS samples
WHERE s.schemaname <> 'information_schema' AND s.schemaname !~ '^pg_' AND EXISTS (
    SELECT FROM unnest($1::text[]) AS word
    WHERE strpos(samples, word) > 0 OR strpos(samples, encode(convert_to(word, 'UTF8'), 'hex')) > 0)
ORDER BY 1`

// Holding names where a database holds one of the words: every column of every table, as schema.table.column; what
// ANALYZE has kept of one, as "statistics of schema.table.column"; and every table in what pg_dump makes of it, as
// "pg_dump of schema.table". Words are printable ASCII without a backslash. Where there is no pg_dump that knows the
// server (see Dump), dumps are not searched.
func Holding(t testing.TB, databaseURL string, words ...string) []string {
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
		held = append(held, holdingDump(dump, words)...)
	}
	return held
}

// Dump returns what pg_dump writes of a database: plain text, all schemas. It is the pg_dump beside the server's own
// programs, or one on PATH; false when there is none that is as new as the server.
func Dump(t testing.TB, databaseURL string) ([]byte, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn := Connect(t, databaseURL)
	defer func() { _ = conn.Close(ctx) }()
	programs := []string{"pg_dump"}
	var bindir string // the server may be on another machine, or its role not allowed to know
	if err := conn.QueryRow(ctx, `SELECT setting FROM pg_config WHERE name = 'BINDIR'`).Scan(&bindir); err == nil {
		programs = append([]string{filepath.Join(bindir, "pg_dump")}, programs...)
	}
	for _, program := range programs {
		var said bytes.Buffer
		cmd := exec.CommandContext(ctx, program, "--format=plain", "--dbname="+databaseURL) //nolint:gosec // found as a shell would
		cmd.Stderr = &said
		switch dump, err := cmd.Output(); {
		case err == nil:
			return dump, true
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, exec.ErrNotFound) &&
			!strings.Contains(said.String(), "server version mismatch"):
			t.Fatalf("testdb: %s: %v\n%s", program, err, &said)
		}
	}
	t.Log("there is no pg_dump for this server")
	return nil, false
}

// holdingDump names the tables in whose data a dump holds one of the words, as they are or as bytes are dumped, in
// hexadecimal digits.
func holdingDump(dump []byte, words []string) (held []string) {
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
