package rebuild

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/events"
	"novelgate/projections"
)

//go:embed columns.sql
var columnsSQL string

// erasedSQL finds the authors who were ever erased. $1: event type.
const erasedSQL = `SELECT DISTINCT stream_id FROM events WHERE stream_type = 'author' AND event_type = $1`

// compareSettingsSQL makes values look the same in both sessions, and lets a whole table be read and sorted as such.
const compareSettingsSQL = `SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO, YMD'; SET LOCAL bytea_output = 'hex';
SET LOCAL extra_float_digits = 1; SET LOCAL enable_seqscan = on; SET LOCAL work_mem = '64MB'`

// compareTables compares the live tables, as a transaction sees them, with the new ones, which nobody else writes.
func (c *comparison) compareTables(ctx context.Context, live pgx.Tx) error {
	c.Progress(Progress{Phase: Comparing, Done: c.result.Events, Total: c.result.Events})
	without, authors, err := c.forgotten(ctx)
	if err != nil {
		return err
	}
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
			t := table{name: name, relation: pgx.Identifier{name}.Sanitize()}
			if query, ok := without[name]; ok {
				t.relation, t.args = "("+query+")", []any{authors}
			}
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

// forgotten returns the authors of whom the log has lost what live tables may still count, and how these look without them. It looks
// when the replay has read all, so no erasure that it has met is missing.
func (c *comparison) forgotten(ctx context.Context) (without map[string]string, authors []pgtype.UUID, err error) {
	forgetful, ok := c.Projection.(projections.Forgetful)
	if !ok {
		return nil, nil, nil
	}
	err = pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL enable_seqscan = on`); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, erasedSQL, events.AuthorErased{}.Type())
		if err != nil {
			return err
		}
		authors, err = pgx.CollectRows(rows, pgx.RowTo[pgtype.UUID])
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read who was erased: %w", err)
	}
	if len(authors) == 0 {
		return nil, nil, nil
	}
	return forgetful.WithoutAuthors(), authors, nil
}

// table is one to compare.
type table struct {
	name, relation string // what is read: the table, or a query for its rows
	args           []any  // of the relation
	columns        []column
	key            []column // the primary key
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
		strings.Join(key, ", "), strings.Join(all, ", "), t.relation)
}

// rowSQL reads the columns of one row as text. Its parameters are those of the relation, and then the parts of the key.
func (t *table) rowSQL() string {
	all, where := make([]string, len(t.columns)), make([]string, len(t.key))
	for i, c := range t.columns {
		all[i] = c.of() + "::text"
	}
	for i, c := range t.key {
		where[i] = fmt.Sprintf("%s = $%d::text::%s", c.of(), len(t.args)+i+1, c.dataType)
	}
	return fmt.Sprintf(`SELECT ARRAY[%s] FROM %s AS t WHERE %s`, strings.Join(all, ", "), t.relation, strings.Join(where, " AND "))
}

// says names a row by its key.
func (t *table) says(key string) string {
	names, parts := make([]string, len(t.key)), strings.SplitN(key, separator, len(t.key))
	for i, c := range t.key {
		names[i] = c.name + " " + parts[i]
	}
	return strings.Join(names, ", ")
}
