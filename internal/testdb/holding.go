package testdb

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
)

// columnsSQL lists every column in which something is stored, and whether it holds bytes.
const columnsSQL = `SELECT n.nspname, c.relname, a.attname, a.atttypid = 'bytea'::regtype
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'm') AND a.attnum > 0 AND NOT a.attisdropped AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
ORDER BY 1, 2, 3`

type column struct {
	Schema, Table, Name string
	Bytes               bool
}

// Holding names where a database holds one of the words: every column of every table, as schema.table.column, and every table in what
// pg_dump makes of it, as "pg_dump of schema.table". Words are printable ASCII without a backslash. Where there is no pg_dump
// that knows the server (see Dump), the columns are searched alone.
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
		sql := `SELECT EXISTS (SELECT FROM ` + pgx.Identifier{c.Schema, c.Table}.Sanitize() + `, unnest($1::text[]) AS word WHERE ` + match + `)`
		if err := conn.QueryRow(ctx, sql, words).Scan(&found); err != nil {
			return nil, fmt.Errorf("search %s.%s.%s: %w", c.Schema, c.Table, c.Name, err)
		}
		if found {
			held = append(held, c.Schema+"."+c.Table+"."+c.Name)
		}
	}
	return held, nil
}
