package analytics_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/parquet-go/parquet-go"

	"novelgate/internal/analytics"
	"novelgate/internal/testdb"
)

func newPool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return testdb.Pool(t, testdb.New(t))
}

func execute(t testing.TB, pool *pgxpool.Pool, statement string) {
	t.Helper()
	testdb.Exec(t, pool, statement)
}

// everything has a column of each type in the views, each with a NULL and with edge cases.
const everything = `CREATE VIEW analytics.everything AS SELECT * FROM (VALUES
	(1, 'c0ffee00-0000-4000-8000-000000000001'::uuid, timestamptz '2026-01-02 03:04:05.678901+09', date '2026-02-28',
	    'plain', ARRAY['a', 'b,"c"', ''], 1.50::numeric, 7::bigint, 0.1::float8, true),
	(2, 'ffffffff-ffff-ffff-ffff-ffffffffffff', '1969-12-31 23:59:59.999999Z', '1969-12-31', '', '{}', 1000000,
	    -9223372036854775808, 'NaN', false),
	(3, '00000000-0000-0000-0000-000000000000', '9999-12-31 23:59:59.999999Z', '0001-01-01',
	    E'two\nlines, "quoted"; \u00e9\U0001F600 =1+1', ARRAY['x'], 0.00000000000000000001, 9223372036854775807, -1.5e300,
	        true),
	(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
) AS v (zebra, id, at, day, body, list, chapter, count, ratio, flag)`

func TestExportEqualsSelect(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	execute(t, pool, everything)
	execute(t, pool, `CREATE VIEW analytics.nothing AS SELECT * FROM analytics.everything WHERE false`)
	execute(t, pool, `INSERT INTO posts (post_id, thread_id, novel_id, integration_id, author_id, chapter_number, content_bytes, written_at, recorded_at, changed_at, log_index, edited_at)
		SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(),
		    nullif(n % 7, 0) / 2.0,
			n, now() - n * interval '1 second', now(), now(), n, CASE WHEN n % 3 = 0 THEN now() END
		FROM generate_series(1, 5000) AS n`)
	execute(t, pool, `UPDATE posts SET withdrawn = true, author_id = NULL, content_bytes = NULL WHERE log_index % 5 = 0`)
	for _, view := range []string{"everything", "nothing", "posts", "novels"} {
		t.Run(view, func(t *testing.T) {
			t.Parallel()
			want := selected(t, pool, view)
			if diff := cmp.Diff(want, csvRows(t, export(t, pool, view, analytics.CSV))); diff != "" {
				t.Errorf("CSV differs (-SELECT +file):\n%.2000s", diff)
			}
			if diff := cmp.Diff(want, parquetRows(t, export(t, pool, view, analytics.Parquet))); diff != "" {
				t.Errorf("Parquet differs (-SELECT +file):\n%.2000s", diff)
			}
		})
	}
}

func export(t testing.TB, pool *pgxpool.Pool, view string, format analytics.Format) []byte {
	t.Helper()
	return exportSince(t, pool, view, format, "")
}

func exportSince(t testing.TB, pool *pgxpool.Pool, view string, format analytics.Format, since string) []byte {
	t.Helper()
	var file bytes.Buffer
	exportTo(t, pool, view, format, since, &file)
	return file.Bytes()
}

func exportTo(t testing.TB, pool *pgxpool.Pool, name string, format analytics.Format, since string, out io.Writer) {
	t.Helper()
	s := testdb.Must(analytics.Open(t.Context(), pool, since))(t)
	defer s.Close(t.Context())
	view := testdb.Must(s.Find(t.Context(), name))(t)
	testdb.Must(s.Export(t.Context(), view, format, out))(t)
}

// null represents NULL in expected values.
const null = "∅"

// selected returns the names of the columns, and the rows as text, sorted.
func selected(t *testing.T, pool *pgxpool.Pool, view string) [][]string {
	t.Helper()
	config := pool.Config().ConnConfig.Copy()
	config.RuntimeParams["timezone"] = "UTC"
	conn := testdb.Must(pgx.ConnectConfig(t.Context(), config))(t)
	defer func() { _ = conn.Close(context.Background()) }()
	rows := testdb.Must(conn.Query(t.Context(), `SELECT * FROM analytics.`+view, pgx.QueryExecModeSimpleProtocol))(t)
	var names []string
	for _, field := range rows.FieldDescriptions() {
		names = append(names, field.Name)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]string, error) {
		var texts []string
		for _, raw := range row.RawValues() {
			if raw == nil {
				texts = append(texts, null)
				continue
			}
			texts = append(texts, string(raw))
		}
		return texts, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return append([][]string{names}, sorted(all)...)
}

func sorted(rows [][]string) [][]string {
	slices.SortFunc(rows, slices.Compare)
	return rows
}

// csvRows reads a file with Go's reader, which does not distinguish NULL and the empty string. The test view has both,
// so csvRows checks the quotes.
func csvRows(t *testing.T, file []byte) [][]string {
	t.Helper()
	file = bytes.ReplaceAll(file, []byte(`,"",`), []byte(`,empty,`))
	rows := testdb.Must(csv.NewReader(bytes.NewReader(file)).ReadAll())(t)
	for _, row := range rows[1:] {
		for i := range row {
			switch row[i] {
			case "":
				row[i] = null
			case "empty":
				row[i] = ""
			}
		}
	}
	return append(rows[:1:1], sorted(rows[1:])...)
}

// parquetRows reads a file by its schema, and formats values as PostgreSQL does.
func parquetRows(t *testing.T, file []byte) [][]string {
	t.Helper()
	opened := testdb.Must(parquet.OpenFile(bytes.NewReader(file), int64(len(file))))(t)
	var names []string
	fields := opened.Schema().Fields()
	for _, field := range fields {
		names = append(names, field.Name())
	}
	rounded := func(i int) bool { return slices.Contains(names, names[i]+"_exact") } // see TestDecimals
	exact := func(texts []string) []string {
		kept := []string{}
		for i := range texts {
			if !rounded(i) {
				kept = append(kept, texts[i])
			}
		}
		return kept
	}
	reader := parquet.NewGenericReader[any](bytes.NewReader(file), opened.Schema())
	defer func() { _ = reader.Close() }()
	var all [][]string
	buffer := make([]parquet.Row, 64)
	for {
		n, err := reader.ReadRows(buffer)
		for _, row := range buffer[:n] {
			texts := make([]string, len(fields))
			row.Range(func(column int, values []parquet.Value) bool {
				if !rounded(column) {
					texts[column] = rendered(t, fields[column], values)
				}
				return true
			})
			all = append(all, exact(texts))
		}
		if errors.Is(err, io.EOF) {
			header := exact(names)
			for i := range header {
				header[i] = strings.TrimSuffix(header[i], "_exact")
			}
			return append([][]string{header}, sorted(all)...)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestDecimals: a numeric column is a number, and its exact digits are in another column.
func TestDecimals(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	execute(t, pool, `CREATE VIEW analytics.numbers AS SELECT n, x FROM (VALUES
		(1, 12.5), (2, 1000000), (3, 0.0000005), (4, 0.00000049), (5, -2.25), (6, 999999999999.999999), (7, 999999999999.9999999), (8, 1e12), (9, 'NaN'), (10, NULL)) AS v (n, x)`)
	file := export(t, pool, "numbers", analytics.Parquet)
	opened := testdb.Must(parquet.OpenFile(bytes.NewReader(file), int64(len(file))))(t)
	column, ok := opened.Schema().Lookup("x")
	if !ok || column.Node.Type().LogicalType().String() != "DECIMAL(18,6)" {
		t.Fatalf("x: %v %v", ok, opened.Schema())
	}
	rows, err := parquet.Read[struct {
		N int32  `parquet:"n,optional"`
		X *int64 `parquet:"x,optional,decimal(6:18)"`
	}](bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	want := map[int32]int64{1: 12_500_000, 2: 1_000_000_000_000, 3: 1, 4: 0, 5: -2_250_000, 6: 999_999_999_999_999_999}
	got := map[int32]int64{}
	for _, row := range rows {
		if row.X != nil {
			got[row.N] = *row.X
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(rows) != 10 {
		t.Errorf("%d rows (-want +got)\n%s", len(rows), diff)
	}
}

func rendered(t *testing.T, field parquet.Field, values []parquet.Value) string {
	t.Helper()
	value := values[0]
	if !field.Optional() {
		t.Errorf("%s is not optional", field.Name())
	}
	if value.DefinitionLevel() == 0 {
		return null
	}
	if !field.Leaf() {
		var elements []string
		for _, element := range values {
			if element.DefinitionLevel() < 2 {
				continue
			}
			text := element.String()
			if strings.ContainsAny(text, `",`) || text == "" {
				text = `"` + strings.ReplaceAll(text, `"`, `\"`) + `"`
			}
			elements = append(elements, text)
		}
		return "{" + strings.Join(elements, ",") + "}"
	}
	switch logical := field.Type().LogicalType(); {
	case logical == nil && value.Kind() == parquet.Boolean:
		return value.String()[:1]
	case logical == nil, strings.HasPrefix(logical.String(), "INT("):
		return value.String()
	case strings.HasPrefix(logical.String(), "UUID"):
		id, err := uuid.FromBytes(value.ByteArray())
		if err != nil {
			t.Error(err)
		}
		return id.String()
	case strings.HasPrefix(logical.String(), "TIMESTAMP(isAdjustedToUTC=true,unit=MICROS)"):
		return time.UnixMicro(value.Int64()).UTC().Format("2006-01-02 15:04:05.999999+00")
	case strings.HasPrefix(logical.String(), "DATE"):
		return time.Unix(int64(value.Int32())*86400, 0).UTC().Format(time.DateOnly)
	case strings.HasPrefix(logical.String(), "STRING"):
		return string(value.ByteArray())
	default:
		t.Errorf("%s has the type %s", field.Name(), logical)
		return ""
	}
}

// TestRowGroups: a file of several row groups, limited by bytes or rows, has every row once.
func TestRowGroups(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	execute(t, pool,
		`CREATE VIEW analytics.wide AS SELECT n, repeat('x', 30000) AS body FROM generate_series(1, 1500) AS n`)
	execute(t, pool, `CREATE VIEW analytics.long AS SELECT n FROM generate_series(1, 1100000) AS n`)
	for view, want := range map[string]int{"wide": 1500, "long": 1_100_000} {
		file := export(t, pool, view, analytics.Parquet)
		opened := testdb.Must(parquet.OpenFile(bytes.NewReader(file), int64(len(file))))(t)
		if groups := len(opened.RowGroups()); groups < 2 {
			t.Errorf("%s: %d row groups: this test has shown nothing", view, groups)
		}
		rows := testdb.Must(parquet.Read[struct {
			N *int32 `parquet:"n,optional"`
		}](bytes.NewReader(file), int64(len(file))))(t)
		if len(rows) != want {
			t.Fatalf("%s: %d rows, want %d", view, len(rows), want)
		}
		for i := range rows {
			if rows[i].N == nil || int(*rows[i].N) != i+1 {
				t.Fatalf("%s: row %d is %v", view, i, rows[i].N)
			}
		}
	}
}

// TestSnapshot: all files of a snapshot are as of one moment, which they name, and what has not changed since a time is
// left out of the views that know it.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	execute(t, pool, `CREATE TABLE kept (n integer, changed_at timestamptz);
		INSERT INTO kept VALUES (1, '2026-01-02 03:04:05.678901Z'), (2, '2026-01-02 03:04:05.678902Z');
		CREATE VIEW analytics.dated AS SELECT n, changed_at FROM kept; CREATE VIEW analytics.undated AS SELECT n FROM kept;
		INSERT INTO projections (name, generation, position, state, updated_at) VALUES ('posts', 1, 0, 'running', now());
		INSERT INTO events (log_index, stream_type, stream_id, stream_version, event_id, event_source,
		    event_type, data, actor, batch_id, recorded_at)
		VALUES (0, 'novel', gen_random_uuid(), 1, 'k', 's', 'novel.approved.v1', '{}', 'a', gen_random_uuid(), '2026-01-03')`)
	for since, want := range map[string]int{"": 2, "2026-01-02T03:04:05.678902Z": 1, "2026-01-02 12:04:05.678902+09": 1} {
		s := testdb.Must(analytics.Open(t.Context(), pool, since))(t)
		execute(t, pool, `INSERT INTO kept VALUES (3, now()); UPDATE projections SET position = 1`)
		for name, rows := range map[string]int{"dated": want, "undated": 2} {
			view := testdb.Must(s.Find(t.Context(), name))(t)
			var file bytes.Buffer
			if n := testdb.Must(s.Export(t.Context(), view, analytics.Parquet, &file))(t); int(n) != rows {
				t.Errorf("since %q, %s has %d rows, want %d", since, name, n, rows)
			}
			opened := testdb.Must(parquet.OpenFile(bytes.NewReader(file.Bytes()), int64(file.Len())))(t)
			if at, _ := opened.Lookup("as_of"); at != "2026-01-03T00:00:00Z" {
				t.Errorf("since %q, %s is as of %q", since, name, at)
			}
		}
		s.Close(t.Context())
		execute(t, pool, `DELETE FROM kept WHERE n = 3; UPDATE projections SET position = 0`)
	}
	if _, err := analytics.Open(t.Context(), pool, "soon"); err == nil {
		t.Error("a time that is none was accepted")
	}
}

func TestUnknownViewIsRefused(t *testing.T) {
	t.Parallel()
	s := testdb.Must(analytics.Open(t.Context(), newPool(t), ""))(t)
	defer s.Close(t.Context())
	_, err := s.Find(t.Context(), "events")
	if !errors.Is(err, analytics.ErrUnknownView) || !strings.Contains(err.Error(), "daily_facts") ||
		!strings.Contains(err.Error(), "posts") {
		t.Errorf("got %v", err)
	}
}

// TestMemoryDoesNotGrowWithTheRows: only a part of the rows is in memory.
func TestMemoryDoesNotGrowWithTheRows(t *testing.T) {
	pool := newPool(t)
	// Text that compresses to about half its size.
	execute(t, pool, `CREATE VIEW analytics.many AS
		SELECT n, encode(substr(noise, 1 + n * 1009 % 1000000, 1000), 'hex') AS body
		FROM generate_series(1, 75000) AS n, (SELECT string_agg(sha512(i::text::bytea), '') AS noise FROM generate_series(1, 16000) AS i) AS source`)
	for _, format := range []analytics.Format{analytics.CSV, analytics.Parquet} {
		file := testdb.Must(os.Create(filepath.Join(t.TempDir(), "many")))(t)
		peak := watchHeap()
		exportTo(t, pool, "many", format, "", file)
		const bound = 80 << 20 // of 150 MB
		if got := peak(); got > bound {
			t.Errorf("%s: %d MiB of memory", format, got>>20)
		} else {
			t.Logf("%s: %d MiB of memory", format, got>>20)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// watchHeap returns a function that ends the measurement and returns the maximum of live memory after garbage
// collections. Garbage does not count, because its amount depends on the timing of collections.
func watchHeap() (peak func() uint64) {
	runtime.GC()
	end, most := make(chan struct{}), make(chan uint64)
	go func() {
		var highest uint64
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		for {
			metrics.Read(live)
			highest = max(highest, live[0].Value.Uint64())
			select {
			case <-end:
				most <- highest
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		close(end)
		return <-most
	}
}
