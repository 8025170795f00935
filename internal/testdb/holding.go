package testdb

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// columnsSQL lists every column in which something is stored, and whether it holds bytes.
const columnsSQL = `SELECT n.nspname, c.relname, a.attname, a.atttypid = 'bytea'::regtype
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'm') AND a.attnum > 0 AND NOT a.attisdropped AND n.nspname <> 'information_schema'
    AND n.nspname !~ '^pg_'
ORDER BY 1, 2, 3`

type column struct {
	Schema, Table, Name string
	Bytes               bool
}

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
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		t.Fatalf("testdb: connect: %v", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	held, err := holdingColumns(ctx, conn, words)
	if err != nil {
		t.Fatalf("testdb: search columns: %v", err)
	}
	sampled, err := holdingSamples(ctx, conn, words)
	if err != nil {
		t.Fatalf("testdb: search statistics: %v", err)
	}
	held = append(held, sampled...)
	if dump, ok := Dump(t, databaseURL); ok {
		held = append(held, holdingDump(dump, words)...)
	}
	return held
}

func holdingColumns(ctx context.Context, conn *pgx.Conn, words []string) (held []string, err error) {
	rows, err := conn.Query(ctx, columnsSQL)
	if err != nil {
		return nil, fmt.Errorf("list columns: %w", err)
	}
	columns, err := pgx.CollectRows(rows, pgx.RowToStructByPos[column])
	if err != nil {
		return nil, fmt.Errorf("list columns: %w", err)
	}
	for _, c := range columns {
		match := `strpos(` + pgx.Identifier{c.Name}.Sanitize() + `::text, word) > 0`
		if c.Bytes {
			match = `position(convert_to(word, 'UTF8') IN ` + pgx.Identifier{c.Name}.Sanitize() + `) > 0`
		}
		var found bool
		sql := `SELECT EXISTS (SELECT FROM ` + pgx.Identifier{c.Schema, c.Table}.Sanitize() +
			`, unnest($1::text[]) AS word WHERE ` + match + `)`
		if err := conn.QueryRow(ctx, sql, words).Scan(&found); err != nil {
			return nil, fmt.Errorf("search %s.%s.%s: %w", c.Schema, c.Table, c.Name, err)
		}
		if found {
			held = append(held, c.Schema+"."+c.Table+"."+c.Name)
		}
	}
	return held, nil
}

func holdingSamples(ctx context.Context, conn *pgx.Conn, words []string) ([]string, error) {
	rows, err := conn.Query(ctx, sampledSQL, words)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// Dump returns what pg_dump writes of a database: plain text, all schemas. It is the pg_dump beside the server's own
// programs, or one on PATH; false when there is none that is as new as the server.
func Dump(t testing.TB, databaseURL string) ([]byte, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		t.Fatalf("testdb: connect: %v", err)
	}
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
