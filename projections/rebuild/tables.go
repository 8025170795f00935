package rebuild

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
)

var (
	//go:embed structure.sql
	structureSQL string
	//go:embed unsupported.sql
	unsupportedSQL string
	//go:embed options.sql
	optionsSQL string
	//go:embed indexes.sql
	indexesSQL string
	//go:embed constraints.sql
	constraintsSQL string
)

// ErrUnsupported refuses tables on which something hangs that would be lost.
var ErrUnsupported = errors.New("tables cannot be rebuilt while these hang on them")

// structureOf returns a digest of the structure of the live tables. It leaves the transaction with the search_path
// qualified.
func structureOf(ctx context.Context, db pgx.Tx, tables []string) (string, error) {
	if _, err := db.Exec(ctx, qualified); err != nil {
		return "", fmt.Errorf("set search_path: %w", err)
	}
	var found int
	var digest *string
	if err := db.QueryRow(ctx, structureSQL, tables).Scan(&found, &digest); err != nil {
		return "", fmt.Errorf("read structure: %w", err)
	}
	if found != len(tables) || digest == nil {
		return "", fmt.Errorf("%d of the tables %v are in schema public", found, tables)
	}
	return *digest, nil
}

func refuseUnsupported(ctx context.Context, db database.DB, tables []string) error {
	hanging, err := texts(ctx, db, unsupportedSQL, tables)
	if err != nil {
		return fmt.Errorf("look at what depends on the tables: %w", err)
	}
	if len(hanging) > 0 {
		return fmt.Errorf("%w: %s", ErrUnsupported, strings.Join(hanging, ", "))
	}
	return nil
}

// Kinds of new tables. Those that are thrown away need not outlive a crash of the database.
const (
	lasting  = `CREATE TABLE `
	unlogged = `CREATE UNLOGGED TABLE `
)

// createTables makes the new tables, in a schema of their own, without indexes.
func createTables(ctx context.Context, tx database.DB, schema string, tables []string, create string) error {
	statements := []string{`CREATE SCHEMA ` + pgx.Identifier{schema}.Sanitize()}
	for _, table := range tables {
		statements = append(statements, create+pgx.Identifier{schema, table}.Sanitize()+
			` (LIKE `+pgx.Identifier{"public", table}.Sanitize()+` INCLUDING ALL EXCLUDING INDEXES)`)
	}
	options, err := texts(ctx, tx, optionsSQL, schema, tables)
	if err != nil {
		return fmt.Errorf("read storage parameters: %w", err)
	}
	return execute(ctx, tx, append(statements, options...))
}

// qualified makes PostgreSQL print definitions with the schema of everything, until the end of the transaction or,
// outside of one, of the statement.
const qualified = `SET LOCAL search_path = pg_catalog`

// index is one that the new tables lack.
type index struct {
	table, name, definition   string
	remains, valid, exclusion bool
}

// createIndexes makes the indexes and constraints that the live tables have. Concurrently takes no transaction id while
// an index is built, and needs a connection outside of a transaction.
func createIndexes(ctx context.Context, db database.DB, schema string, tables []string, concurrently bool) error {
	if _, err := db.Exec(ctx, strings.Replace(qualified, "LOCAL ", map[bool]string{false: "LOCAL "}[concurrently],
		1)); err != nil {
		return fmt.Errorf("set search_path: %w", err)
	}
	rows, err := db.Query(ctx, indexesSQL, schema, tables)
	if err != nil {
		return fmt.Errorf("read indexes: %w", err)
	}
	indexes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (i index, err error) {
		return i, row.Scan(&i.table, &i.name, &i.definition, &i.remains, &i.valid, &i.exclusion)
	})
	if err != nil {
		return fmt.Errorf("read indexes: %w", err)
	}
	for _, i := range indexes {
		if i.valid || i.exclusion {
			continue
		}
		var statements []string
		if i.remains { // of an attempt that was interrupted
			statements = append(statements, `DROP INDEX `+pgx.Identifier{schema, i.name}.Sanitize())
		}
		if concurrently {
			i.definition = strings.Replace(i.definition, " INDEX ", " INDEX CONCURRENTLY ", 1)
		}
		if err := execute(ctx, db, append(statements, i.definition)); err != nil {
			return err
		}
	}
	constraints, err := texts(ctx, db, constraintsSQL, schema, tables)
	if err != nil {
		return fmt.Errorf("read constraints: %w", err)
	}
	return execute(ctx, db, constraints)
}

// texts returns the first column of a query.
func texts(ctx context.Context, db database.DB, sql string, args ...any) ([]string, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func execute(ctx context.Context, db database.DB, statements []string) error {
	for _, statement := range statements {
		if _, err := db.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%.80s: %w", statement, err)
		}
	}
	return nil
}
