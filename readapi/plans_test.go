package readapi_test

import (
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"novelgate/internal/testdb"
	"novelgate/readapi"
)

// TestReadersProbeIndexes: in a database that was never analysed, the statement is planned while it is empty. It must
// use index probes, then and when the discussion has grown.
func TestReadersProbeIndexes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	novel := w.novel(t, "A", nil)
	w.project(t)
	conn := testdb.Must(w.Read.Acquire(t.Context()))(t)
	defer conn.Release()
	questions := map[string]readapi.DiscussionParams{
		"newest": {Slug: "a", Newest: true, Limit: 50}, "oldest": {Slug: "a", Limit: 50},
		"chapter":            {Slug: "a", Limit: 50, Chapter: "7"},
		"up to a chapter":    {Slug: "a", Limit: 50, UpTo: "7"},
		"no chapter, newest": {Slug: "a", Limit: 50, Newest: true, Chapter: readapi.NoChapter},
	}
	post := testdb.Must(uuid.Parse("c4ca4238-a0b9-2382-0dcc-509a6f75849b"))(t)
	probes := map[string][]any{
		"locate": {readapi.LocateSQL, "a", post, 10, "7"},
		"post":   {readapi.OnePostSQL, post}, "novel": {readapi.NovelSQL, "a"},
	}
	check := func(when string, rows int) {
		t.Helper()
		for path, args := range probes {
			sql, _ := args[0].(string)
			plan := explain(t, conn.Conn(), path, sql, args[1:])
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
			lists["by "+sort] = list(t, readapi.CatalogueParams{Sort: sort, Limit: 20}, nil)
			lists["by "+sort+", a few"] = list(t, readapi.CatalogueParams{Sort: sort, Limit: 20, Genre: "Fantasy"},
				[]uuid.UUID{uuid.New(), uuid.New()})
			lists["by "+sort+", filtered"] = list(t,
				readapi.CatalogueParams{Sort: sort, Limit: 20, Genre: "Fantasy", Text: "a"}, nil)
		}
		lists["latest"] = [2]any{readapi.LatestSQL, []any{20}}
		lists["latest on a novel"] = [2]any{readapi.LatestOnNovelSQL, []any{novel, 20}}
		for path, args := range map[string][]any{
			"discussed.sql": {"2025-01-01", 300, 5}, "chapters.sql": {uuid.New(), 1000},
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
			if name == "latest on a novel" && regexp.MustCompile(`actual rows=\d{5}`).MatchString(plan) {
				t.Errorf("%s, %s: all comments are read:\n%s", name, when, plan)
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
				"author_decisions_pkey", "events_pkey",
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
			// Comments on later chapters are passed over in the index.
			if q.Chapter == "" && !skipsLater.MatchString(plan) {
				t.Errorf("%s, %s: later chapters are read:\n%s", name, when, plan)
			}
			if rows > 0 && !strings.Contains(plan, "actual rows=51") {
				t.Errorf("%s, %s: more or less was read than the page takes:\n%s", name, when, plan)
			}
		}
	}
	check("empty", 0)
	w.exec(t, `INSERT INTO posts (post_id, thread_id, novel_id, integration_id, author_id, content_bytes, chapter_number, written_at, recorded_at, changed_at, log_index, root_post_id, depth)
		SELECT md5(n::text)::uuid, t.thread_id, t.novel_id, $1, md5('a' || n % 99)::uuid, 4, CASE WHEN n % 2 = 0
		    THEN 7 END,
			timestamptz '2025-01-01' + n * interval '1 minute', timestamptz '2025-01-01' + n * interval '1 minute', now(), n,
			CASE WHEN n % 5 = 0 THEN md5('1')::uuid END, CASE WHEN n % 5 = 0 THEN 1 ELSE 0 END
		FROM threads t, generate_series(1, 20000) n`, w.platform)
	w.shelf(t, "title ", 299, nil)
	check("grown, planned while empty", 20_000)
	if err := conn.Conn().DeallocateAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("grown", 20_000)
}

func list(t *testing.T, c readapi.CatalogueParams, candidates []uuid.UUID) [2]any {
	t.Helper()
	sql, args, err := readapi.NovelsStatement(c, candidates)
	if err != nil {
		t.Fatal(err)
	}
	return [2]any{sql, args}
}

// shelf writes n novels as the projections would, with the titles prefix 1 and so on. A third of them belong to owner,
// half have the language EN, all have the genre All, and each has one of nine others.
func (w *world) shelf(t *testing.T, prefix string, n int, owner *uuid.UUID) {
	t.Helper()
	w.exec(t, `WITH shelf AS (
		SELECT i, $1 || i AS title, md5($1 || i)::uuid AS novel_id, md5($1) || '-' || i AS slug,
		    CASE WHEN i % 3 = 0 THEN $3::uuid END AS owner_id,
		    ARRAY['All', 'Of ' || i % 9] AS genres, CASE WHEN i % 2 = 0 THEN 'EN' ELSE '' END AS language
		FROM generate_series(1, $2::integer) i
	), titles AS (
		INSERT INTO title_lookup (folded_title, novel_id, slug, title, state, owner_id, stream_version, details)
		SELECT title, novel_id, slug, title, 'approved', owner_id, 1,
		    jsonb_build_object('genres', genres, 'language', language)
		FROM shelf
	), activity AS (
		INSERT INTO novel_activity (novel_id, created_at, posted_at)
		SELECT novel_id, timestamptz '2025-01-01' + i * interval '1 s', timestamptz '2025-01-02' - i * interval '1 s'
		FROM shelf
	)
	INSERT INTO novels (novel_id, title, slug, author, synopsis, cover_url, genres, language, reading_status, search,
		folded_language, state, owner_id, created_at, stream_version)
	SELECT novel_id, title, slug, 'Ida Verne', '', '', genres, language, '', title || E'\nida verne', lower(language),
		'approved', owner_id, now(), 1 FROM shelf`, prefix, n, owner)
}

// TestSearchProbesAnIndex, and gives the same novels whether they are few, so that the index finds them, or many, so
// that the list is gone through. The database was never analysed.
func TestSearchProbesAnIndex(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shelf(t, "紅樓夢 book ", 1400, &w.platform)
	reader := readapi.Reader{DB: w.Read}
	for name, c := range map[string]struct {
		params readapi.CatalogueParams
		want   int
	}{
		"half a title": {readapi.CatalogueParams{Text: "Ook 69"}, 24}, "an author and a title": {
			readapi.CatalogueParams{Text: "1399 verne Ida"}, 1,
		},
		"a character":      {readapi.CatalogueParams{Text: "夢"}, 1400},
		"two characters":   {readapi.CatalogueParams{Text: "樓夢"}, 1400},
		"no title":         {readapi.CatalogueParams{Text: "夢樓"}, 0},
		"frequent pairs":   {readapi.CatalogueParams{Text: "bok"}, 0},
		"a genre":          {readapi.CatalogueParams{Genre: "Of 5"}, 156},
		"a frequent genre": {readapi.CatalogueParams{Genre: "All"}, 1400},
		"no genre":         {readapi.CatalogueParams{Genre: "all"}, 0},
		"a language":       {readapi.CatalogueParams{Language: "en"}, 700},
		"an owner":         {readapi.CatalogueParams{Owner: "fan site"}, 466},
		"the host":         {readapi.CatalogueParams{Owner: readapi.Host}, 934},
		"nobody":           {readapi.CatalogueParams{Owner: "Nobody"}, 0},
		"several":          {readapi.CatalogueParams{Owner: "Fan Site", Genre: "Of 3", Language: "EN", Text: "ook"}, 78},
	} {
		for _, sort := range []string{readapi.ByTitle, readapi.ByActivity, readapi.ByNewest} {
			c.params.Sort, c.params.Limit, c.params.Cursor = sort, 250, ""
			seen := map[uuid.UUID]bool{}
			for {
				page := testdb.Must(reader.Novels(t.Context(), c.params))(t)
				for i := range page.Novels {
					seen[page.Novels[i].ID] = true
				}
				if c.params.Cursor = string(page.Next); page.Next == "" {
					break
				}
			}
			if len(seen) != c.want {
				t.Errorf("%s by %s: %d novels, want %d", name, sort, len(seen), c.want)
			}
		}
		sql, args := readapi.CandidatesStatement(c.params)
		if sql == "" {
			continue // nothing but one character
		}
		tx := testdb.Begin(t, w.Read)
		var ids []uuid.UUID
		var probes, walks [2]int
		const scansSQL = `SELECT pg_stat_get_xact_numscans('novels_facets'::regclass),
			pg_stat_get_xact_numscans('novels'::regclass)`
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
		if many := c.want > 1000; many != (ids == nil) || !many && len(ids) != c.want {
			t.Errorf("%s: %d novels found", name, len(ids))
		}
	}
}

var skipsLater = regexp.MustCompile(`Index Cond: \(\(thread_id = .*COALESCE\(chapter_number, '0'`)

var removedRows = regexp.MustCompile(`Rows Removed by Filter: (\d+)`)

// explain executes a statement that is prepared under its name on this connection, once.
func explain(t *testing.T, conn *pgx.Conn, name, sql string, args []any) string {
	t.Helper()
	prepared := testdb.Must(conn.Prepare(t.Context(), name, sql))(t)
	literals := make([]string, len(args))
	for i, arg := range args {
		text := testdb.Must(conn.TypeMap().Encode(prepared.ParamOIDs[i], pgx.TextFormatCode, arg, []byte{}))(t)
		if literals[i] = "NULL"; text != nil {
			literals[i] = "'" + strings.ReplaceAll(string(text), "'", "''") + "'"
		}
	}
	call := pgx.Identifier{name}.Sanitize()
	if len(args) > 0 {
		call += " (" + strings.Join(literals, ", ") + ")"
	}
	return strings.Join(testdb.Values[string](t, conn, "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) EXECUTE "+call,
		pgx.QueryExecModeSimpleProtocol), "\n")
}
