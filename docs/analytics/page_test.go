package analytics_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"novelgate/internal/analytics"
	"novelgate/internal/testdb"
)

var update = flag.Bool("update", false, "write docs/analytics.md")

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }

const page = "../analytics.md"

// examples are the queries with an answer, in the order of the page.
var examples = []string{
	"partners", "comments_per_chapter", "reply_depth", "cross_partner_overlap", "busiest_days", "retention",
	"late_comments",
}

type example struct{ Title, Description, SQL, Answer string }

// TestPageIsUpToDate: the page is what the views, the queries and their answers make of it.
func TestPageIsUpToDate(t *testing.T) {
	t.Parallel()
	pool, comments := sampleDatabase(t)
	conn := analyst(t, pool.Config().ConnConfig)
	views, err := analytics.Views(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	content := struct {
		Freshness string
		Views     []analytics.View
		Rows      int
		Examples  []example
	}{Freshness: readExample(t, "freshness").SQL, Views: views, Rows: comments}
	for _, name := range examples {
		e := readExample(t, name)
		e.Answer = answer(t, conn, e.SQL)
		content.Examples = append(content.Examples, e)
	}
	var want bytes.Buffer
	functions := template.FuncMap{"cell": func(s string) string { return strings.ReplaceAll(s, "|", `\|`) }}
	if err := template.Must(template.New("page.tmpl").Funcs(functions).ParseFiles("page.tmpl")).Execute(&want,
		content); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(page, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Errorf("docs/analytics.md is out of date: run `make docs` (-made now +file):\n%s", diff)
	}
}

// TestEveryQueryRuns, as an analyst, and is on the page.
func TestEveryQueryRuns(t *testing.T) {
	t.Parallel()
	pool, _ := sampleDatabase(t)
	conn := analyst(t, pool.Config().ConnConfig)
	files, err := filepath.Glob("*.sql")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		names = append(names, strings.TrimSuffix(file, ".sql"))
		answer(t, conn, readExample(t, names[len(names)-1]).SQL)
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(append(slices.Clone(examples), "freshness"))), names); diff != "" {
		t.Errorf("queries on the page and files (-page +files):\n%s", diff)
	}
}

// TestEveryColumnIsDescribed: the comments are the documentation.
func TestEveryColumnIsDescribed(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), testdb.New(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	views, err := analytics.Views(t.Context(), conn)
	if err != nil || len(views) < 9 {
		t.Fatalf("found %d views, %v", len(views), err)
	}
	for _, view := range views {
		if view.Description == "" {
			t.Errorf("analytics.%s has no comment", view.Name)
		}
		for _, column := range view.Columns {
			if column.Description == "" {
				t.Errorf("analytics.%s.%s has no comment", view.Name, column.Name)
			}
		}
	}
}

// analyst connects with the rights of an analyst alone.
func analyst(t *testing.T, config *pgx.ConnConfig) *pgx.Conn {
	t.Helper()
	config = config.Copy()
	config.RuntimeParams["timezone"] = "UTC"
	config.RuntimeParams["default_transaction_read_only"] = "on"
	config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		return conn.Exec(ctx, `SET ROLE novelgate_analytics`).Close()
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// readExample returns a query. The first line of the file is its title, further comment lines describe it.
func readExample(t *testing.T, name string) example {
	t.Helper()
	text, err := os.ReadFile(name + ".sql")
	if err != nil {
		t.Fatal(err)
	}
	var comments []string
	rest := string(text)
	for strings.HasPrefix(rest, "-- ") {
		line, after, _ := strings.Cut(rest, "\n")
		comments, rest = append(comments, strings.TrimPrefix(line, "-- ")), after
	}
	if len(comments) == 0 {
		t.Fatalf("%s.sql has no title", name)
	}
	return example{Title: comments[0], Description: strings.Join(comments[1:], "\n"), SQL: strings.TrimSpace(rest)}
}

// answer returns the rows as a table.
func answer(t *testing.T, conn *pgx.Conn, sql string) string {
	t.Helper()
	rows, err := conn.Query(t.Context(), sql, pgx.QueryExecModeSimpleProtocol) // values come as text
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	var table strings.Builder
	line := func(cells []string) { table.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	var header, rule []string
	for _, field := range rows.FieldDescriptions() {
		header, rule = append(header, field.Name), append(rule, "---")
	}
	line(header)
	line(rule)
	for rows.Next() {
		var cells []string
		for _, value := range rows.RawValues() {
			cells = append(cells, string(value))
		}
		line(cells)
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return table.String()
}
