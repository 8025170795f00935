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
	//go:embed views.sql
	viewsSQL string
	//go:embed attributes.sql
	attributesSQL string
)

// ErrUnsupported means that a rebuild would lose objects that depend on the tables, such as triggers.
var ErrUnsupported = errors.New("tables cannot be rebuilt while these objects depend on them")

// structureOf returns a digest of the structure of the live tables. It executes qualifySQL in the transaction.
func structureOf(ctx context.Context, db pgx.Tx, tables []string) (string, error) {
	if _, err := db.Exec(ctx, qualifySQL); err != nil {
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
	dependents, err := texts(ctx, db, unsupportedSQL, tables)
	if err != nil {
		return fmt.Errorf("read what depends on the tables: %w", err)
	}
	if len(dependents) > 0 {
		return fmt.Errorf("%w: %s", ErrUnsupported, strings.Join(dependents, ", "))
	}
	return nil
}

// Kinds of new tables. Those of a comparison are dropped afterwards, so they need not survive a crash of the database.
const (
	permanent = `CREATE TABLE `
	unlogged  = `CREATE UNLOGGED TABLE `
)

// createTables creates the new tables in their own schema, without indexes. create is permanent or unlogged.
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

// qualifySQL makes PostgreSQL print definitions with the schemas of all names, until the end of the transaction.
const qualifySQL = `SET LOCAL search_path = pg_catalog`

// createIndexes creates the indexes and constraints of the new tables.
func createIndexes(ctx context.Context, tx database.DB, schema string, tables []string) error {
	if _, err := tx.Exec(ctx, qualifySQL); err != nil {
		return fmt.Errorf("set search_path: %w", err)
	}
	for _, sql := range []string{indexesSQL, constraintsSQL} {
		statements, err := texts(ctx, tx, sql, schema, tables)
		if err != nil {
			return fmt.Errorf("read indexes and constraints: %w", err)
		}
		if err := execute(ctx, tx, statements); err != nil {
			return err
		}
	}
	return nil
}

func dropSchema(ctx context.Context, db database.DB, schema string) error {
	if _, err := db.Exec(ctx, `DROP SCHEMA IF EXISTS `+pgx.Identifier{schema}.Sanitize()+` CASCADE`); err != nil {
		return fmt.Errorf("drop schema %s: %w", schema, err)
	}
	return nil
}

// exchange replaces the live tables by the new ones and drops the old ones.
func (r *rebuild) exchange(ctx context.Context, tx pgx.Tx) error {
	tables := r.Projection.Tables()
	if _, err := tx.Exec(ctx, qualifySQL); err != nil {
		return fmt.Errorf("set search_path: %w", err)
	}
	viewNames, _, err := views(ctx, tx, tables)
	if err != nil {
		return err
	}
	// Views first, because readers take these locks in this order.
	lock := append(append(viewNames, r.tablesIn("public")...), r.tablesIn(r.Schema())...)
	if _, err := tx.Exec(ctx, `LOCK TABLE `+strings.Join(lock, ", ")+` IN ACCESS EXCLUSIVE MODE`); err != nil {
		return fmt.Errorf("lock tables: %w", err)
	}
	structure, err := structureOf(ctx, tx, tables)
	if err != nil {
		return err
	}
	if structure != r.record.structure {
		return ErrStructure
	}
	if err := refuseUnsupported(ctx, tx, tables); err != nil {
		return err
	}
	// Read the views again under the lock, so that no session can add one.
	_, recreateViews, err := views(ctx, tx, tables)
	if err != nil {
		return err
	}
	attributes, err := texts(ctx, tx, attributesSQL, r.Schema(), tables) // owners, comments, grants
	if err != nil {
		return fmt.Errorf("read attributes: %w", err)
	}
	old := pgx.Identifier{r.Schema() + "_old"}.Sanitize()
	statements := append(attributes, `CREATE SCHEMA `+old)
	for _, table := range tables {
		statements = append(statements,
			`ALTER TABLE `+pgx.Identifier{"public", table}.Sanitize()+` SET SCHEMA `+old,
			`ALTER TABLE `+pgx.Identifier{r.Schema(), table}.Sanitize()+` SET SCHEMA public`)
	}
	statements = append(statements, recreateViews...)
	// Without CASCADE: if another object depends on the old tables, the switch fails and is rolled back.
	statements = append(statements, `DROP TABLE `+strings.Join(r.tablesIn(r.Schema()+"_old"), ", "),
		`DROP SCHEMA `+old, `DROP SCHEMA `+pgx.Identifier{r.Schema()}.Sanitize())
	return execute(ctx, tx, statements)
}

// views returns the names of the views on the live tables, and the statements that re-create them.
func views(ctx context.Context, tx pgx.Tx, tables []string) (names, statements []string, err error) {
	rows, _ := tx.Query(ctx, viewsSQL, tables) // ForEachRow returns its error
	var name, statement string
	_, err = pgx.ForEachRow(rows, []any{&name, &statement}, func() error {
		names, statements = append(names, name), append(statements, statement)
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read views: %w", err)
	}
	return names, statements, nil
}

// texts returns the rows of a query with one column of text.
func texts(ctx context.Context, db database.DB, sql string, args ...any) ([]string, error) {
	rows, _ := db.Query(ctx, sql, args...) // CollectRows returns its error
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
