package rebuild

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

//go:embed columns.sql
var columnsSQL string

// compareSettingsSQL makes values look the same in both sessions, and lets a whole table be read and sorted as such.
const compareSettingsSQL = `SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO, YMD'; SET LOCAL bytea_output = 'hex';
SET LOCAL extra_float_digits = 1; SET LOCAL enable_seqscan = on; SET LOCAL work_mem = '64MB'`

// compareTables compares the live tables, as a transaction sees them, with the new ones, which nobody else writes.
func (c *comparison) compareTables(ctx context.Context, live pgx.Tx) error {
	c.Progress(Progress{Phase: Comparing, Done: c.result.Events, Total: c.result.Events})
	return pgx.BeginFunc(ctx, c.pool, func(replayed pgx.Tx) error {
		if err := c.writeTo(ctx, replayed); err != nil {
			return err
		}
		for _, tx := range []pgx.Tx{live, replayed} {
			if _, err := tx.Exec(ctx, compareSettingsSQL); err != nil {
				return fmt.Errorf("set up the comparison: %w", err)
			}
		}
		for _, name := range c.Projection.Tables() {
			t := table{name: name}
			if err := t.readColumns(ctx, live); err != nil {
				return err
			}
			compared, err := t.compare(ctx, live, replayed)
			if err != nil {
				return fmt.Errorf("compare table %s: %w", name, err)
			}
			c.result.Tables = append(c.result.Tables, compared)
		}
		return nil
	})
}

// table is one to compare.
type table struct {
	name    string
	columns []column
	key     []column // the primary key
}

type column struct {
	name, dataType string
	inKey          bool
}

func (t *table) readColumns(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, columnsSQL, t.name)
	if err != nil {
		return fmt.Errorf("read columns of %s: %w", t.name, err)
	}
	t.columns, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c column, err error) {
		return c, row.Scan(&c.name, &c.dataType, &c.inKey)
	})
	if err != nil {
		return fmt.Errorf("read columns of %s: %w", t.name, err)
	}
	t.key = slices.DeleteFunc(slices.Clone(t.columns), func(c column) bool { return !c.inKey })
	if len(t.key) == 0 {
		return fmt.Errorf("%w: table %s has no primary key", ErrNotComparable, t.name)
	}
	return nil
}

// of is the column of the relation, which the statements below call t.
func (c column) of() string { return "t." + pgx.Identifier{c.name}.Sanitize() }

func (t *table) identifier() string { return pgx.Identifier{t.name}.Sanitize() }

// separator stands between the parts of a key. Only a key of one part may be any text.
const separator = "\x1f"

// hashesSQL reads key and hash of every row, ordered by key.
func (t *table) hashesSQL() string {
	key, all := make([]string, len(t.key)), make([]string, len(t.columns))
	for i, c := range t.key {
		key[i] = c.of() + "::text"
	}
	for i, c := range t.columns {
		all[i] = c.of()
	}
	return fmt.Sprintf(`SELECT k, h
FROM (SELECT concat_ws(E'\x1f', %s) COLLATE "C" AS k, sha256(convert_to(ROW(%s)::text, 'UTF8')) AS h FROM %s AS t) AS r ORDER BY k`,
		strings.Join(key, ", "), strings.Join(all, ", "), t.identifier())
}

// rowSQL reads the columns of one row as text. Its parameters are the parts of the key.
func (t *table) rowSQL() string {
	all, where := make([]string, len(t.columns)), make([]string, len(t.key))
	for i, c := range t.columns {
		all[i] = c.of() + "::text"
	}
	for i, c := range t.key {
		where[i] = fmt.Sprintf("%s = $%d::text::%s", c.of(), i+1, c.dataType)
	}
	return fmt.Sprintf(`SELECT ARRAY[%s] FROM %s AS t WHERE %s`, strings.Join(all, ", "), t.identifier(),
		strings.Join(where, " AND "))
}

// says names a row by its key.
func (t *table) says(key string) string {
	names, parts := make([]string, len(t.key)), strings.SplitN(key, separator, len(t.key))
	for i, c := range t.key {
		names[i] = c.name + " " + parts[i]
	}
	return strings.Join(names, ", ")
}
