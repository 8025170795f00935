package rebuild

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed views.sql
	viewsSQL string
	//go:embed attributes.sql
	attributesSQL string
)

// exchange puts the new tables in the place of the live ones, which it drops.
func (r *rebuild) exchange(ctx context.Context, tx pgx.Tx) error {
	tables := r.Projection.Tables()
	if _, err := tx.Exec(ctx, qualified); err != nil {
		return fmt.Errorf("set search_path: %w", err)
	}
	names, _, err := views(ctx, tx, tables)
	if err != nil {
		return err
	}
	// Views first: that is the order in which readers take these locks.
	lock := append(append(names, r.identifiers("public")...), r.identifiers(r.schema())...)
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
	// Only now nobody adds a view any more.
	_, repoint, err := views(ctx, tx, tables)
	if err != nil {
		return err
	}
	attributes, err := texts(ctx, tx, attributesSQL, r.schema(), tables)
	if err != nil {
		return fmt.Errorf("read attributes: %w", err)
	}
	old := pgx.Identifier{r.schema() + "_old"}.Sanitize()
	statements := append(attributes, `CREATE SCHEMA `+old)
	for _, table := range tables {
		statements = append(statements,
			`ALTER TABLE `+pgx.Identifier{"public", table}.Sanitize()+` SET SCHEMA `+old,
			`ALTER TABLE `+pgx.Identifier{r.schema(), table}.Sanitize()+` SET SCHEMA public`)
	}
	statements = append(statements, repoint...)
	// Without CASCADE: should anything else hang on the old tables, all of this is undone.
	statements = append(statements, `DROP TABLE `+strings.Join(r.identifiers(r.schema()+"_old"), ", "),
		`DROP SCHEMA `+old, `DROP SCHEMA `+pgx.Identifier{r.schema()}.Sanitize())
	return execute(ctx, tx, statements)
}

// views returns the names of the views that are bound to the live tables, and what binds them to others.
func views(ctx context.Context, tx pgx.Tx, tables []string) (names, statements []string, err error) {
	rows, err := tx.Query(ctx, viewsSQL, tables)
	if err != nil {
		return nil, nil, fmt.Errorf("read views: %w", err)
	}
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

// identifiers returns the tables, as they are in a schema.
func (r *rebuild) identifiers(schema string) []string {
	var list []string
	for _, table := range r.Projection.Tables() {
		list = append(list, pgx.Identifier{schema, table}.Sanitize())
	}
	return list
}
