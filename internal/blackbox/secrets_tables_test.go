package blackbox_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

// mayHoldWords are the columns that people's words may be in: `personal` of the log, which can be erased, and the read
// models of comments and their authors.
var mayHoldWords = []string{"public.events.personal", "public.posts.", "public.authors."}

// wantTablesClean looks into every column of every table: keys are nowhere, refused words neither, and accepted words
// only where they belong.
func wantTablesClean(t *testing.T, databaseURL string, s *spy) {
	t.Helper()
	var columns, holding []string
	onDatabase(t, databaseURL, func(ctx context.Context, connection *pgx.Conn) error {
		rows, err := connection.Query(ctx, `SELECT n.nspname, c.relname, a.attname, a.atttypid = 'bytea'::regtype
			FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE c.relkind IN ('r', 'p', 'm') AND a.attnum > 0 AND NOT a.attisdropped AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'`)
		if err != nil {
			return err
		}
		type column struct {
			Schema, Table, Name string
			Bytes               bool
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[column])
		if err != nil {
			return err
		}
		for _, c := range found {
			name := c.Schema + "." + c.Table + "." + c.Name
			columns = append(columns, name)
			text := pgx.Identifier{c.Name}.Sanitize() + "::text"
			if c.Bytes {
				text = "encode(" + pgx.Identifier{c.Name}.Sanitize() + ", 'escape')"
			}
			holds := func(planted string) (bool, error) {
				var held bool
				err := connection.QueryRow(ctx,
					fmt.Sprintf(`SELECT EXISTS (SELECT FROM %s WHERE %s ~ $1)`, pgx.Identifier{c.Schema, c.Table}.Sanitize(), text),
					planted).Scan(&held)
				return held, err
			}
			for planted, report := range map[string]func(){
				strings.Join(append(s.secrets(), refusedWords, headerWords), "|"): func() {
					t.Errorf("%s holds a key or refused words", name)
				},
				acceptedWords: func() { holding = append(holding, name) },
			} {
				held, err := holds(planted)
				if err != nil {
					return fmt.Errorf("search %s: %w", name, err)
				}
				if held {
					report()
				}
			}
		}
		return wantHashes(ctx, t, connection, s)
	})
	for _, name := range holding {
		if !slices.ContainsFunc(mayHoldWords, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			t.Errorf("%s holds what a comment says", name)
		}
	}
	if !slices.Contains(holding, "public.events.personal") {
		t.Errorf("the search does not find the comments in public.events.personal, only in %v of %v", holding, columns)
	}
}

// wantHashes wants the SHA-256 of each key that was issued, and of no guess.
func wantHashes(ctx context.Context, t *testing.T, connection *pgx.Conn, s *spy) error {
	t.Helper()
	rows, err := connection.Query(ctx, `SELECT key_hash FROM api_keys UNION ALL SELECT key_hash FROM person_keys`)
	if err != nil {
		return err
	}
	stored, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return err
	}
	var wanted [][]byte
	for _, key := range s.keys {
		hash := sha256.Sum256([]byte(key))
		wanted = append(wanted, hash[:])
	}
	slices.SortFunc(stored, bytes.Compare)
	slices.SortFunc(wanted, bytes.Compare)
	if diff := cmp.Diff(wanted, stored); diff != "" {
		t.Errorf("stored hashes (-keys +tables)\n%s", diff)
	}
	return nil
}
