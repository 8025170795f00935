package rebuild

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

//go:embed columns.sql
var columnsSQL string

// Kinds of difference.
const (
	Changed = "changed" // the row exists with other values
	Missing = "missing" // the replay has the row, the live table does not
	Extra   = "extra"   // the live table has the row, the replay does not
)

// MaxDifferences is the maximum number of listed differences of a table. All are counted.
const MaxDifferences = 5

// TableComparison is the result of comparing a live table with its replay. A digest is the SHA-256 of the SHA-256
// hashes of all rows, in the order of their keys; equal rows have the same digest in every database.
type TableComparison struct {
	Name            string       `json:"name"`
	Rows            int64        `json:"rows"`
	Digest          string       `json:"digest"`
	ReplayedRows    int64        `json:"replayedRows"`
	ReplayedDigest  string       `json:"replayedDigest"`
	DifferenceCount int64        `json:"differenceCount"`
	Differences     []Difference `json:"differences"` // the first ones, by key
}

// Difference is a row of a live table that differs from the replay.
type Difference struct {
	Kind string `json:"kind"`
	Key  string `json:"key"` // the columns of the key
	// names of the differing columns; values are left out, because they may be personal data
	Columns []string `json:"columns"`
	key     string
}

// String returns the difference as one line.
func (d *Difference) String() string {
	switch d.Kind {
	case Missing:
		return "the row with " + d.Key + " is missing: events lead to it"
	case Extra:
		return "the row with " + d.Key + " is extra: no event leads to it"
	default:
		return "in the row with " + d.Key + ", the events lead to other values of " + strings.Join(d.Columns, ", ")
	}
}

// side reads one of the two tables, row by row.
type side struct {
	rows     pgx.Rows
	key, sum []byte // of the current row; key is nil after the last one
	digest   hash.Hash
	count    int64
}

func (s *side) next() {
	s.key = nil
	if !s.rows.Next() {
		return
	}
	v := s.rows.RawValues()
	s.key, s.sum = append([]byte{}, v[0]...), append(s.sum[:0], v[1]...)
	s.digest.Write(s.sum)
	s.count++
}

// compare merges both tables in the order of their keys.
func (t *table) compare(ctx context.Context, live, replayed pgx.Tx) (TableComparison, error) {
	var sides [2]*side
	for i, tx := range []pgx.Tx{live, replayed} {
		rows, err := tx.Query(ctx, t.hashesSQL(), pgx.QueryResultFormats{pgtype.TextFormatCode, pgtype.BinaryFormatCode})
		if err != nil {
			return TableComparison{}, err
		}
		defer rows.Close()
		sides[i] = &side{rows: rows, digest: sha256.New()}
		sides[i].next()
	}
	got, want := sides[0], sides[1]
	result := TableComparison{Name: t.name, Differences: []Difference{}}
	differs := func(kind string, key []byte) {
		if result.DifferenceCount++; len(result.Differences) < MaxDifferences {
			result.Differences = append(result.Differences,
				Difference{Kind: kind, Key: t.describe(string(key)), Columns: []string{}, key: string(key)})
		}
	}
	for got.key != nil || want.key != nil {
		switch order := compareKeys(got.key, want.key); {
		case order < 0:
			differs(Extra, got.key)
			got.next()
		case order > 0:
			differs(Missing, want.key)
			want.next()
		default:
			if !bytes.Equal(got.sum, want.sum) {
				differs(Changed, got.key)
			}
			got.next()
			want.next()
		}
	}
	for _, s := range sides {
		s.rows.Close()
		if err := s.rows.Err(); err != nil {
			return TableComparison{}, err
		}
	}
	result.Rows, result.Digest = got.count, hex.EncodeToString(got.digest.Sum(nil))
	result.ReplayedRows, result.ReplayedDigest = want.count, hex.EncodeToString(want.digest.Sum(nil))
	for i := range result.Differences {
		if err := t.nameColumns(ctx, live, replayed, &result.Differences[i]); err != nil {
			return TableComparison{}, err
		}
	}
	return result, nil
}

// compareKeys compares keys in the order of PostgreSQL. nil, the end, comes last.
func compareKeys(a, b []byte) int {
	switch {
	case a == nil:
		return 1
	case b == nil:
		return -1
	default:
		return bytes.Compare(a, b)
	}
}

// nameColumns finds the differing columns of a changed row.
func (t *table) nameColumns(ctx context.Context, live, replayed pgx.Tx, d *Difference) error {
	if d.Kind != Changed {
		return nil
	}
	var args []any
	for _, part := range strings.SplitN(d.key, separator, len(t.key)) {
		args = append(args, part)
	}
	var values [2][]*string
	for i, tx := range []pgx.Tx{live, replayed} {
		if err := tx.QueryRow(ctx, t.rowSQL(), args...).Scan(&values[i]); err != nil {
			return fmt.Errorf("read the row with %s: %w", d.Key, err)
		}
	}
	for i, c := range t.columns {
		a, b := values[0][i], values[1][i]
		if (a == nil) != (b == nil) || a != nil && *a != *b {
			d.Columns = append(d.Columns, c.name)
		}
	}
	return nil
}

// compareSettingsSQL gives values the same text form in both sessions, and suits the reading and sorting of whole
// tables.
const compareSettingsSQL = `SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO, YMD'; SET LOCAL bytea_output = 'hex';
SET LOCAL extra_float_digits = 1; SET LOCAL enable_seqscan = on; SET LOCAL work_mem = '64MB'`

// compareTables compares the live tables, as the transaction live sees them, with the new ones, which only this process
// writes.
func (c *comparison) compareTables(ctx context.Context, live pgx.Tx) error {
	return pgx.BeginFunc(ctx, c.pool, func(replayed pgx.Tx) error {
		if err := c.setSearchPath(ctx, replayed); err != nil {
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

// table is a table to compare.
type table struct {
	name    string
	columns []column
	key     []column // the primary key
}

type column struct {
	name, dataType string
	inKey          bool
}

func (t *table) readColumns(ctx context.Context, tx pgx.Tx) (err error) {
	rows, _ := tx.Query(ctx, columnsSQL, t.name) // CollectRows returns its error
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

// qualified returns the quoted name of the column with the table alias t.
func (c column) qualified() string { return "t." + pgx.Identifier{c.name}.Sanitize() }

func (t *table) identifier() string { return pgx.Identifier{t.name}.Sanitize() }

// separator separates the parts of a key, so a text in a key of several parts must not contain it.
const separator = "\x1f"

// hashesSQL reads key and hash of every row, ordered by key.
func (t *table) hashesSQL() string {
	key, all := make([]string, len(t.key)), make([]string, len(t.columns))
	for i, c := range t.key {
		key[i] = c.qualified() + "::text"
	}
	for i, c := range t.columns {
		all[i] = c.qualified()
	}
	return fmt.Sprintf(`SELECT k, h
FROM (SELECT concat_ws(E'\x1f', %s) COLLATE "C" AS k, sha256(convert_to(ROW(%s)::text, 'UTF8')) AS h FROM %s AS t) AS r ORDER BY k`,
		strings.Join(key, ", "), strings.Join(all, ", "), t.identifier())
}

// rowSQL reads the columns of one row as text. Its parameters are the parts of the key.
func (t *table) rowSQL() string {
	all, where := make([]string, len(t.columns)), make([]string, len(t.key))
	for i, c := range t.columns {
		all[i] = c.qualified() + "::text"
	}
	for i, c := range t.key {
		where[i] = fmt.Sprintf("%s = $%d::text::%s", c.qualified(), i+1, c.dataType)
	}
	return fmt.Sprintf(`SELECT ARRAY[%s] FROM %s AS t WHERE %s`, strings.Join(all, ", "), t.identifier(),
		strings.Join(where, " AND "))
}

// describe names the row with a key, such as "post_id 0190…".
func (t *table) describe(key string) string {
	names, parts := make([]string, len(t.key)), strings.SplitN(key, separator, len(t.key))
	for i, c := range t.key {
		names[i] = c.name + " " + parts[i]
	}
	return strings.Join(names, ", ")
}
