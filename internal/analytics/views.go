// Package analytics lists the views of the schema analytics, which analysts query, and exports them to files.
package analytics

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"novelgate/internal/database"
)

// ErrUnknownView is returned for a name that is not a view of the schema analytics.
var ErrUnknownView = errors.New("unknown view")

// View is a view of the schema analytics.
type View struct {
	Name        string   `json:"view"`
	Description string   `json:"description"` // its COMMENT
	Columns     []Column `json:"columns"`     // in the view's order

	since string // a time; rows that have not changed since are left out; empty for all rows
}

// HasChangedAt reports whether the view knows when its rows have changed.
func (v View) HasChangedAt() bool {
	return slices.ContainsFunc(v.Columns, func(c Column) bool { return c.Name == "changed_at" })
}

// Column is a column of a view.
type Column struct {
	Name        string `json:"column"`
	Type        string `json:"type"` // PostgreSQL's name: "uuid", "timestamp with time zone", …
	Description string `json:"description"`

	oid        uint32 // of the type
	expression string // SQL of the value, if it is not that of the view's column
}

//go:embed views.sql
var viewsSQL string

// Views returns the views of the schema analytics, sorted by name, with their descriptions from the database.
func Views(ctx context.Context, q database.Querier) ([]View, error) {
	rows, _ := q.Query(ctx, viewsSQL) // ForEachRow returns its error
	var views []View
	var view View
	var column Column
	_, err := pgx.ForEachRow(rows,
		[]any{&view.Name, &view.Description, &column.Name, &column.Type, &column.oid, &column.Description}, func() error {
			if len(views) == 0 || views[len(views)-1].Name != view.Name {
				views = append(views, view)
			}
			last := &views[len(views)-1]
			last.Columns = append(last.Columns, column)
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("list views: %w", err)
	}
	return views, nil
}

// find returns the view with this name. It fails with ErrUnknownView and the list of the existing views.
func find(ctx context.Context, q database.Querier, name string) (View, error) {
	views, err := Views(ctx, q)
	if err != nil {
		return View{}, err
	}
	names := make([]string, len(views))
	for i, view := range views {
		if view.Name == name {
			return view, nil
		}
		names[i] = view.Name
	}
	return View{}, fmt.Errorf("%w %q: there are %s", ErrUnknownView, name, strings.Join(names, ", "))
}

// query returns the SELECT of all columns. Names are quoted; expressions are SQL of this package, and since is a time
// as the server prints it.
func (v View) query() string {
	columns := make([]string, len(v.Columns))
	for i := range v.Columns {
		c := &v.Columns[i]
		columns[i] = cmp.Or(c.expression, pgx.Identifier{c.Name}.Sanitize())
	}
	sql := "SELECT " + strings.Join(columns, ", ") + " FROM " + v.table()
	if v.since != "" {
		sql += " WHERE changed_at >= '" + v.since + "'"
	}
	return sql
}

func (v View) table() string { return pgx.Identifier{"analytics", v.Name}.Sanitize() }
