package readapi_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"novelgate/internal/testdb"
	"novelgate/readapi"
)

// TestReadersProbeIndexes: in a database that was never analysed, the statement is planned while it is empty. It must
// use index probes, then and when the discussion has grown.
func TestReadersProbeIndexes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.novel(t, "A", nil)
	conn := testdb.Must(w.Read.Acquire(t.Context()))(t)
	defer conn.Release()
	questions := map[string]readapi.DiscussionParams{
		"newest": {Slug: "a", Newest: true, Limit: 50}, "oldest": {Slug: "a", Limit: 50},
		"chapter":            {Slug: "a", Limit: 50, Chapter: "7"},
		"no chapter, newest": {Slug: "a", Limit: 50, Newest: true, Chapter: readapi.NoChapter},
		"past, newest":       {Slug: "a", Limit: 50, Newest: true, AsOf: new(time.Date(2025, 1, 3, 0, 0, 0, 0, time.UTC))},
		"past, oldest":       {Slug: "a", Limit: 50, AsOf: new(time.Date(2025, 1, 3, 0, 0, 0, 0, time.UTC))},
		"before everything":  {Slug: "a", Limit: 50, AsOf: new(time.Date(2024, 12, 1, 0, 0, 0, 0, time.UTC))},
	}
	files := map[string][]any{
		"locate.sql": {
			"a", "c4ca4238-a0b9-2382-0dcc-509a6f75849b",
			pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true},
			10, 2000,
		},
		"post.sql":  {"c4ca4238-a0b9-2382-0dcc-509a6f75849b"},
		"novel.sql": {"a"},
	}
	check := func(when string, rows int) {
		t.Helper()
		for path, args := range files {
			sql := testdb.Must(os.ReadFile(path))(t)
			plan := explain(t, conn.Conn(), path, string(sql), args)
			for _, bad := range []string{
				"Seq Scan", "Hash", "Merge", "Sort", "Bitmap", "Materialize", "Rows Removed by Filter: 1",
			} {
				if strings.Contains(plan, bad) {
					t.Errorf("%s, %s: there is a %s:\n%s", path, when, bad, plan)
				}
			}
		}
		// Sorting the few rows of a page is fine, scanning a whole table is not.
		lists := map[string][2]any{}
		for _, sort := range []string{readapi.ByTitle, readapi.ByActivity, readapi.ByNewest} {
			lists["by "+sort] = list(readapi.CatalogueParams{Sort: sort, Limit: 20})
			lists["by "+sort+", a few"] = few(readapi.CatalogueParams{Sort: sort, Limit: 20, Genre: "Fantasy"})
			lists["by "+sort+", filtered"] = list(readapi.CatalogueParams{Sort: sort, Limit: 20, Genre: "Fantasy", Text: "a"})
		}
		for path, args := range map[string][]any{
			"latest.sql": {12}, "discussed.sql": {"2025-01-01", 300, 5}, "chapters.sql": {uuid.New(), 1000},
			"sitemap.sql": {uuid.Nil, uuid.Max, 24_000}, "sitemaps.sql": {},
		} {
			sql := testdb.Must(os.ReadFile(path))(t)
			lists[path] = [2]any{string(sql), args}
		}
		for name, l := range lists {
			sql, _ := l[0].(string)
			args, _ := l[1].([]any)
			plan := explain(t, conn.Conn(), name, sql, args)
			for _, bad := range []string{"Seq Scan", "Hash Join", "Merge Join", "Bitmap"} {
				if strings.Contains(plan, bad) {
					t.Errorf("%s, %s: there is a %s:\n%s", name, when, bad, plan)
				}
			}
			if strings.HasSuffix(name, "a few") && strings.Contains(plan, "Rows Removed") {
				t.Errorf("%s, %s: others are read, too:\n%s", name, when, plan)
			}
			bounded := strings.HasPrefix(name, "by ") && !strings.Contains(name, "filtered")
			if bounded && strings.Contains(plan, "actual rows=300") {
				t.Errorf("%s, %s: all novels are read:\n%s", name, when, plan)
			}
		}
		for name, q := range questions {
			sql, args := readapi.Statement(q)
			plan := explain(t, conn.Conn(), name, sql, args)
			for _, bad := range []string{"Seq Scan", "Hash", "Merge", "Sort", "Bitmap", "Materialize"} {
				if strings.Contains(plan, bad) {
					t.Errorf("%s, %s: there is a %s:\n%s", name, when, bad, plan)
				}
			}
			index := "posts_top_level"
			if q.Chapter != "" {
				index += "_by_chapter"
			}
			for _, used := range []string{
				index, "posts_replies", "title_lookup_slug_key", "threads_pkey", "thread_activity_pkey", "authors_pkey",
				"integrations_pkey",
				"author_decisions_pkey", "events_stream_key",
			} {
				if !strings.Contains(plan, "using "+used+" on ") && !strings.Contains(plan, "using "+used+"\n") {
					t.Errorf("%s, %s: index %s is not probed:\n%s", name, when, used, plan)
				}
			}
			for _, removed := range removedRows.FindAllStringSubmatch(plan, -1) {
				if n, err := strconv.Atoi(removed[1]); err != nil || n > 24*60 { // those of a day
					t.Errorf("%s, %s: too many comments are passed over:\n%s", name, when, plan)
				}
			}
			if rows > 0 && name != "before everything" && !strings.Contains(plan, "actual rows=51") {
				t.Errorf("%s, %s: more or less was read than the page takes:\n%s", name, when, plan)
			}
		}
	}
	check("empty", 0)
	w.exec(t, `INSERT INTO posts (post_id, thread_id, novel_id, integration_id, author_id, content_bytes, chapter_number, written_at, recorded_at, root_post_id, depth)
		SELECT md5(n::text)::uuid, t.thread_id, t.novel_id, $1, md5('a' || n % 99)::uuid, 4, CASE WHEN n % 2 = 0
		    THEN 7 END,
			timestamptz '2025-01-01' + n * interval '1 minute', timestamptz '2025-01-01' + n * interval '1 minute',
			CASE WHEN n % 5 = 0 THEN md5('1')::uuid END, CASE WHEN n % 5 = 0 THEN 1 ELSE 0 END
		FROM threads t, generate_series(1, 20000) n`, w.platform)
	w.exec(t, `INSERT INTO title_lookup (folded_title, novel_id, slug, title, state, stream_version, details)
		SELECT 'title ' || n, md5('n' || n)::uuid, 'title-' || n, 'Title ' || n, 'approved', 1, '{"genres": ["Fantasy"]}'
		FROM generate_series(1, 299) n`)
	w.exec(t, `INSERT INTO novel_activity (novel_id, created_at, posted_at)
		SELECT novel_id, timestamptz '2025-01-01', timestamptz '2025-01-02' FROM title_lookup WHERE slug LIKE 'title-%'`)
	check("grown, planned while empty", 20_000)
	if err := conn.Conn().DeallocateAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("grown", 20_000)
}

func list(c readapi.CatalogueParams) [2]any {
	sql, args := readapi.NovelsStatement(c, nil)
	return [2]any{sql, args}
}

func few(c readapi.CatalogueParams) [2]any {
	sql, args := readapi.NovelsStatement(c, []uuid.UUID{uuid.New(), uuid.New()})
	return [2]any{sql, args}
}

// TestSearchProbesAnIndex, and gives the same novels whether they are few, so that the index finds them, or many, so
// that the list is gone through. The database was never analysed.
func TestSearchProbesAnIndex(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(t, `INSERT INTO title_lookup (folded_title, novel_id, slug, title, state, owner_id, stream_version, details)
		SELECT '紅樓夢 book ' || n, md5('n' || n)::uuid, 'book-' || n, '紅樓夢 Book ' || n, 'approved',
		    CASE WHEN n % 3 = 0 THEN $1::uuid END, 1,
		    jsonb_build_object('genres', ARRAY['All', 'Of ' || n % 9], 'language', CASE WHEN n % 2 = 0 THEN 'EN' ELSE '' END)
		FROM generate_series(1, 700) n`, w.platform)
	w.exec(t, `INSERT INTO novel_activity (novel_id, created_at, posted_at)
		SELECT novel_id, timestamptz '2025-01-01' + n * interval '1 s', timestamptz '2025-01-02' - n * interval '1 s'
		FROM title_lookup, generate_series(1, 700) n WHERE slug = 'book-' || n`)
	reader := readapi.Reader{DB: w.Read}
	for name, c := range map[string]struct {
		params readapi.CatalogueParams
		want   int
	}{
		"half a title":   {readapi.CatalogueParams{Text: "Ook 69"}, 11},
		"a character":    {readapi.CatalogueParams{Text: "夢"}, 700},
		"two characters": {readapi.CatalogueParams{Text: "樓夢"}, 700}, "no title": {readapi.CatalogueParams{Text: "夢樓"}, 0},
		"frequent pairs": {readapi.CatalogueParams{Text: "bok"}, 0}, "a genre": {readapi.CatalogueParams{Genre: "Of 5"}, 78},
		"a frequent genre": {readapi.CatalogueParams{Genre: "All"}, 700},
		"no genre":         {readapi.CatalogueParams{Genre: "all"}, 0},
		"a language":       {readapi.CatalogueParams{Language: "en"}, 350},
		"an owner":         {readapi.CatalogueParams{Owner: "fan site"}, 233},
		"the host":         {readapi.CatalogueParams{Owner: readapi.Host}, 467},
		"nobody":           {readapi.CatalogueParams{Owner: "Nobody"}, 0},
		"several":          {readapi.CatalogueParams{Owner: "Fan Site", Genre: "Of 3", Language: "EN", Text: "ook"}, 39},
	} {
		for _, sort := range []string{readapi.ByTitle, readapi.ByActivity, readapi.ByNewest} {
			c.params.Sort, c.params.Limit, c.params.After = sort, 250, ""
			seen := map[uuid.UUID]bool{}
			for {
				page := testdb.Must(reader.Novels(t.Context(), c.params))(t)
				for i := range page.Novels {
					seen[page.Novels[i].ID] = true
				}
				if c.params.After = page.Next; page.Next == "" {
					break
				}
			}
			if len(seen) != c.want {
				t.Errorf("%s by %s: %d novels, want %d", name, sort, len(seen), c.want)
			}
		}
		sql, args := readapi.FacetsStatement(c.params)
		if sql == "" {
			continue // nothing but one character
		}
		tx := testdb.Begin(t, w.Read)
		var ids []uuid.UUID
		var probes, walks [2]int
		const scansSQL = `SELECT pg_stat_get_xact_numscans('title_lookup_facets'::regclass),
			pg_stat_get_xact_numscans('title_lookup'::regclass)`
		err := tx.QueryRow(t.Context(), scansSQL).Scan(&probes[0], &walks[0])
		if err == nil {
			err = tx.QueryRow(t.Context(), sql, args...).Scan(&ids)
		}
		if err == nil {
			err = tx.QueryRow(t.Context(), scansSQL).Scan(&probes[1], &walks[1])
		}
		if err := errors.Join(err, tx.Rollback(t.Context())); err != nil {
			t.Fatal(err)
		}
		if probes[1]-probes[0] != 1 || walks[1] != walks[0] {
			t.Errorf("%s: probes of the index: %v; the table was read as a whole: %v", name, probes, walks)
		}
		if many := c.want > 200; many != (ids == nil) || !many && len(ids) != c.want {
			t.Errorf("%s: %d novels found", name, len(ids))
		}
	}
}

var removedRows = regexp.MustCompile(`Rows Removed by Filter: (\d+)`)

// explain executes a statement that was prepared under its name on this connection, once.
func explain(t *testing.T, conn *pgx.Conn, name, sql string, args []any) string {
	t.Helper()
	prepared := testdb.Value[bool](t, conn, `SELECT EXISTS (SELECT FROM pg_prepared_statements WHERE name = $1)`, name)
	quoted := pgx.Identifier{name}.Sanitize()
	if !prepared {
		testdb.Exec(t, conn, "PREPARE "+quoted+" AS "+sql)
	}
	literals := make([]string, len(args))
	for i, arg := range args {
		literals[i] = literal(t, arg)
	}
	call := quoted
	if len(args) > 0 {
		call += " (" + strings.Join(literals, ", ") + ")"
	}
	lines := testdb.Values[string](t, conn,
		"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) EXECUTE "+call,
		pgx.QueryExecModeSimpleProtocol)
	return strings.Join(lines, "\n")
}

func literal(t *testing.T, arg any) string {
	t.Helper()
	switch v := arg.(type) {
	case *string:
		if v == nil {
			return "NULL"
		}
		return literal(t, *v)
	case *int:
		if v == nil {
			return "NULL"
		}
		return literal(t, *v)
	case uuid.NullUUID:
		return literal(t, v.UUID)
	case pgtype.Timestamptz:
		if v.InfinityModifier != pgtype.Finite {
			return "'" + v.InfinityModifier.String() + "'"
		}
		return "'" + v.Time.Format(time.RFC3339Nano) + "'"
	case []uuid.UUID:
		return fmt.Sprintf("'{%v,%v}'", v[0], v[1])
	case uuid.UUID, string, int, int32:
		return fmt.Sprintf("'%v'", v)
	default:
		t.Fatalf("%T", arg)
		return ""
	}
}
