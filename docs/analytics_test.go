package docs_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/aggregates/novel"
	"novelgate/events"
	"novelgate/internal/analytics"
	"novelgate/internal/testdb"
	"novelgate/internal/title"
	"novelgate/projections"
)

var update = flag.Bool("update", false, "write docs/analytics.md")

func TestMain(m *testing.M) { os.Exit(testdb.Run(m)) }

const page = "analytics.md"

// examples are the queries with an answer on the page, in its order.
var examples = []string{
	"partners", "comments_per_chapter", "cross_partner_overlap", "retention",
}

type example struct{ Title, Description, SQL, Answer string }

// TestAnalyticsPageIsUpToDate makes docs/analytics.md from the comments of the views, of which none lacks one, and from
// all queries in docs/analytics, as an analyst, with their answers on the comments in sample.csv.
func TestAnalyticsPageIsUpToDate(t *testing.T) {
	t.Parallel()
	pool, comments := sampleDatabase(t)
	conn := analyst(t, pool.Config().ConnConfig)
	views := testdb.Must(analytics.Views(t.Context(), conn))(t)
	content := struct {
		Freshness string
		Views     []analytics.View
		Rows      int
		Examples  []example
	}{Freshness: readExample(t, "freshness").SQL, Views: views, Rows: comments}
	answer(t, conn, content.Freshness)
	for _, view := range views {
		for _, described := range append(view.Columns, analytics.Column{Name: "*", Description: view.Description}) {
			if described.Description == "" {
				t.Errorf("analytics.%s.%s has no comment", view.Name, described.Name)
			}
		}
	}
	if files := testdb.Must(filepath.Glob("analytics/*.sql"))(t); len(views) < 9 || len(files) != len(examples)+1 {
		t.Errorf("%d views; the page has %d queries of %v", len(views), len(examples)+1, files)
	}
	for _, name := range examples {
		e := readExample(t, name)
		e.Answer = answer(t, conn, e.SQL)
		content.Examples = append(content.Examples, e)
	}
	var want bytes.Buffer
	functions := template.FuncMap{
		"short": func(s string) string { return strings.ReplaceAll(s, "timestamp with time zone", "timestamptz") },
	}
	if err := template.Must(template.New("page.tmpl").Funcs(functions).ParseFiles("analytics/page.tmpl")).Execute(&want,
		content); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(page, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got := testdb.Must(os.ReadFile(page))(t)
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Errorf("docs/analytics.md is out of date: run `make docs` (-made now +file):\n%s", diff)
	}
}

// analyst connects with only the rights of an analyst.
func analyst(t *testing.T, config *pgx.ConnConfig) *pgx.Conn {
	t.Helper()
	config = config.Copy()
	config.RuntimeParams["timezone"] = "UTC"
	config.RuntimeParams["default_transaction_read_only"] = "on"
	config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		return conn.Exec(ctx, `SET ROLE novelgate_analytics`).Close()
	}
	conn := testdb.Must(pgx.ConnectConfig(t.Context(), config))(t)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// readExample returns a query. The first line of the file is its title, further comment lines describe it.
func readExample(t *testing.T, name string) example {
	t.Helper()
	text := testdb.Must(os.ReadFile("analytics/" + name + ".sql"))(t)
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

// sampleDatabase returns a database with the comments of sample.csv, and their number. Their recording times come from
// the file, so the projections are applied directly, because the log would set its own.
func sampleDatabase(t *testing.T) (pool *pgxpool.Pool, comments int) {
	t.Helper()
	file, err := os.Open("analytics/sample.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	s := &sample{partners: map[string]uuid.UUID{}, novels: map[string]uuid.UUID{}}
	for _, row := range rows[1:] {
		s.comment(t, row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[8], row[9])
	}
	s.adopt("Moby-Dick")

	if pool, err = pgxpool.New(context.Background(), testdb.New(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	for _, p := range append(projections.Inline(), projections.All()...) {
		if err := p.Apply(t.Context(), pool, s.log); err != nil {
			t.Fatalf("apply to %s: %v", p.Name(), err)
		}
	}
	return pool, len(rows) - 1
}

// sample collects events.
type sample struct {
	log      []events.Recorded
	partners map[string]uuid.UUID
	novels   map[string]uuid.UUID
	at       time.Time
}

func (s *sample) record(streamType string, stream uuid.UUID, version int, source, key string, event events.Event) {
	s.log = append(s.log, events.Recorded{
		LogIndex: int64(len(s.log)), StreamType: streamType, StreamID: stream, StreamVersion: version,
		ID: key, Source: source, Event: event, RecordedAt: s.at,
	})
}

func (s *sample) comment(
	t *testing.T, receivedAt, partner, spelling, key, parent, author, username, chapter, writtenAt, content string,
) {
	t.Helper()
	s.at = moment(t, receivedAt)
	integration, known := s.partners[partner]
	if !known {
		integration = uuid.NewSHA1(uuid.NameSpaceDNS, []byte(partner))
		s.partners[partner] = integration
		s.record(events.IntegrationStream, integration, 1, "staff/integrations/"+integration.String(), "register",
			events.IntegrationRegistered{Name: partner, RegisteredAt: s.at})
	}
	id, known := s.novels[spelling]
	if !known {
		id = events.NovelID(title.Fold(spelling))
		s.novels[spelling] = id
		s.record(events.NovelStream, id, 1, events.PostNovelSource(integration), key, events.NovelCreated{
			Title: spelling, Slug: title.Slug(spelling), Author: novel.DefaultAuthor, OwnerID: &integration,
			State: string(novel.Approved),
		})
		s.record(events.ThreadStream, events.ThreadID(id), 1, events.PostThreadSource(integration), key,
			events.ThreadOpened{NovelID: id})
	}
	e := events.PostImported{
		IntegrationID: integration, NovelID: id, ThreadID: events.ThreadID(id),
		WrittenAt: moment(t, writtenAt),
		Comment:   &events.Comment{ExternalUUID: author, Username: username, Content: content},
	}
	if chapter != "" {
		e.ChapterNumber = jsontext.Value(chapter)
	}
	if parent != "" {
		replied := events.PostID(integration, parent)
		e.ParentPostID = &replied
	}
	s.record(events.PostStream, events.PostID(integration, key), 1, events.PostsSource(integration), key, e)
}

// adopt lets the host platform publish a novel of a partner.
func (s *sample) adopt(spelling string) {
	id := s.novels[spelling]
	s.record(events.NovelStream, id, 2, fmt.Sprintf("staff/novels/%s", id), "adopt",
		events.NovelPublished{Reason: "it is in the public domain"})
}

func moment(t *testing.T, text string) time.Time {
	t.Helper()
	at := testdb.Must(time.Parse(time.RFC3339, text))(t)
	return at.UTC()
}
