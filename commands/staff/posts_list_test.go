package staff_test

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/aggregates/novel"
	"novelgate/commands/staff"
	"novelgate/events"
	"novelgate/internal/database"
	"novelgate/internal/testdb"
	"novelgate/projections"
	"novelgate/projections/rebuild"
)

// postWorld has five comments on two novels of two integrations, A to E, each received a second after the one before,
// and events about them.
type postWorld struct {
	*fixture

	novels, partners [2]uuid.UUID
	ids              map[string]uuid.UUID
}

func newPostWorld(t *testing.T) *postWorld {
	t.Helper()
	w := &postWorld{fixture: newFixture(t), ids: map[string]uuid.UUID{}}
	w.novels = [2]uuid.UUID{imported(t, w.staff, "Genji", novel.Approved), imported(t, w.staff, "Heike", novel.Approved)}
	w.partners = [2]uuid.UUID{uuid.MustParse(w.integrationID), newIntegration(t, w.staff, "Second")}
	for _, c := range []struct {
		key, author, parent string
		novel, partner      int
		chapter             string
	}{
		{"A", "ann", "", 0, 0, "7"},
		{"B", "bob", "A", 0, 0, ""},
		{"C", "ann", "", 1, 0, "7.50"},
		{"D", "dan", "", 1, 1, ""},
		{"E", "ann", "A", 0, 0, ""},
	} {
		r := comment(w.partners[c.partner], c.author, c.key)
		e, _ := r.Event.(events.PostImported)
		e.NovelID, e.ThreadID = w.novels[c.novel], events.ThreadID(w.novels[c.novel])
		e.WrittenAt = noon.Add(1e9 * 60 * 60)
		if c.chapter != "" {
			e.ChapterNumber = []byte(c.chapter)
		}
		if c.parent != "" {
			e.ParentPostID = new(w.ids[c.parent])
		}
		r.Event = e
		w.ids[c.key] = r.StreamID
		appendAll(t, w.staff, r)
	}
	about := func(key string, version int, event events.Event) events.Recorded {
		return events.Recorded{
			StreamType: events.PostStream, StreamID: w.ids[key], StreamVersion: version, ID: fmt.Sprint(key, version),
			Source: events.PostsSource(w.partners[0]), Event: event,
		}
	}
	report := func(reason string, n int) events.PostReported {
		return events.PostReported{IntegrationID: w.partners[0], Reason: reason, Reports: n}
	}
	appendAll(t, w.staff, about("D", 2, report("spam", 2)), about("D", 3, report("other", 1)))
	appendAll(t, w.staff, about("A", 2, report("abuse", 1)))
	appendAll(t, w.staff, about("B", 2, events.PostEdited{
		IntegrationID: w.partners[0], ThreadID: events.ThreadID(w.novels[0]), IsReply: true, EditedAt: noon, TextAt: noon,
		NewText: true, Comment: &events.Comment{ExternalUUID: "bob", Username: "Bob", Content: "edited"},
	}))
	testdb.Must(w.staff.HidePost(t.Context(), w.ids["C"], "rude"))(t)
	appendAll(t, w.staff, about("E", 2, events.PostWithdrawn{IntegrationID: w.partners[0]}))
	project(t, w.staff, 0)
	return w
}

// keys returns the keys of listed posts.
func (w *postWorld) keys(items []map[string]any) string {
	found := ""
	for _, item := range items {
		for key, id := range w.ids {
			if item["postId"] == id.String() {
				found += key
			}
		}
	}
	return found
}

func TestListPosts(t *testing.T) {
	t.Parallel()
	w := newPostWorld(t)
	const path = "/api/admin/posts"
	received := testdb.Value[string](t, w.staff.Pool, `SELECT to_char(recorded_at AT TIME ZONE 'UTC',
		'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') FROM events WHERE stream_id = $1 AND stream_version = 1`, w.ids["C"])
	ann := testdb.AuthorID(w.partners[0], "ann").String()
	for query, want := range map[string]string{
		"": "EDCBA", "novel=" + w.novels[0].String(): "EBA", "integration=" + w.partners[1].String(): "D",
		"author=" + ann: "CA", "author=" + ann + "&state=hidden": "C", "state=hidden": "C", "state=edited": "B",
		"state=withdrawn": "E", "state=reported": "DA", "state=visible": "DBA", "sort=waiting": "DA", "chapter=7.5": "C",
		"sort=waiting&novel=" + w.novels[0].String(): "A", "chapter=none": "EDB", "from=" + received: "EDC",
		"to=" + received: "BA", "state=edited&chapter=7": "", "author=" + uuid.NewString(): "",
		"integration=" + w.partners[0].String() + "&novel=" + w.novels[1].String(): "C",
	} {
		got, cursor := "", ""
		for range 10 {
			page := w.get(t, path+"?limit=1&"+query+"&cursor="+url.QueryEscape(cursor))
			if page.status != 200 {
				t.Fatalf("%s: %s", query, page.text)
			}
			got += w.keys(page.items(t))
			if cursor = page.str("nextCursor"); cursor == "" {
				break
			}
		}
		if all := w.keys(w.get(t, path+"?"+query).items(t)); got != want || all != want {
			t.Errorf("%s: %s page by page, %s at once, want %s", query, got, all, want)
		}
	}
	for _, bad := range []string{"chapter=x", "sort=waiting&cursor=cG4x", "cursor=cHcx", "from=yesterday", "state=x"} {
		if a := w.get(t, path+"?"+bad); a.code() != "invalid_request" {
			t.Errorf("%s: %s", bad, a.text)
		}
	}
	testdb.Exec(t, w.staff.Pool, `UPDATE reported_posts SET abuse = 3000000000 WHERE post_id = $1`, w.ids["A"])
	many := fmt.Sprint(w.get(t, path+"?sort=waiting").items(t))
	if context := w.get(t, path+"/"+w.ids["A"].String()+"/context"); context.status != 200 ||
		!strings.Contains(many, "abuse:3e+09") || !strings.Contains(context.text, "3000000000") {
		t.Errorf("more reports than an integer has room for: %s\n%s", many, context.text)
	}
	testdb.Exec(t, w.staff.Pool, `UPDATE reported_posts SET abuse = 0`)
	items := w.get(t, path).items(t)
	for i, want := range []string{
		"state:withdrawn", "reports:map[other:1 spam:2]", "reason:rude", "content:edited", "name:Fan Site",
	} {
		if got := fmt.Sprint(items[i]); !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
}

func TestPostContext(t *testing.T) {
	t.Parallel()
	w := newPostWorld(t)
	surrounds := func(key string) (got string) {
		a := w.get(t, "/api/admin/posts/"+w.ids[key].String()+"/context")
		if a.status != 200 {
			t.Fatal(a.text)
		}
		for _, name := range []string{"before", "after", "replies"} {
			list, _ := a.body[name].([]any)
			items := make([]map[string]any, len(list))
			for i := range list {
				items[i], _ = list[i].(map[string]any)
			}
			got += " " + name + " " + w.keys(items)
		}
		parent, _ := a.body["parent"].(map[string]any)
		author, _ := a.body["author"].(map[string]any)
		moderated, _ := author["moderated"].([]any)
		return strings.TrimSpace(got + fmt.Sprint(" parent ", w.keys([]map[string]any{parent}), " posts ", author["posts"],
			" hidden ", author["hidden"], " reports ", author["reports"], " moderated ", len(moderated)))
	}
	for key, want := range map[string]string{
		"A": "before  after  replies BE parent  posts 2 hidden 1 reports 1 moderated 1",
		"B": "before  after E replies  parent A posts 1 hidden 0 reports 0 moderated 0",
		"D": "before C after  replies  parent  posts 1 hidden 0 reports 3 moderated 0",
		"E": "before B after  replies  parent A posts <nil> hidden <nil> reports <nil> moderated 0",
	} {
		if got := surrounds(key); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}

// TestSearchPosts: the text of a post is its latest one, hidden or not, and nothing finds a withdrawn or erased one.
// Before the words are there, the answer says why.
func TestSearchPosts(t *testing.T) {
	t.Parallel()
	w := newPostWorld(t)
	search := func(query string) string {
		t.Helper()
		page := w.get(t, "/api/admin/posts?"+query)
		if page.status != 200 {
			return page.text
		}
		return w.keys(page.items(t))
	}
	refused := func(query, because string) {
		t.Helper()
		got := search(query)
		if !strings.Contains(got, `"field":"text"`) || !strings.Contains(got, because) {
			t.Errorf("%s: %s, want %s", query, got, because)
		}
	}
	refused("text=edited", "--search-comments")
	testdb.NoError(t, rebuild.SwitchOn(t.Context(), w.staff.Pool, projections.Words{}))
	refused("text=edited", "still being collected")
	testdb.Exec(t, w.staff.Pool, `UPDATE projections SET generation = $1 WHERE name = 'words'`,
		projections.Words{}.Generation())
	refused("text=%20!%20", "no letter or digit")
	const all = "text=content"
	for query, want := range map[string]string{
		all: "DCA", "text=EDITED!": "B", "text=a,+content": "A", "text=content+edited": "", "text=conten": "", "text=dan": "",
		all + "&state=hidden": "C", all + "&state=edited": "", all + "&sort=waiting": "DA", all + "&state=withdrawn": "",
		all + "&integration=" + w.partners[1].String(): "D", all + "&novel=" + w.novels[0].String(): "A",
		all + "&author=" + testdb.AuthorID(w.partners[0], "ann").String(): "CA",
	} {
		if got := search(query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	end := testdb.Value[events.Position](t, w.staff.Pool, `SELECT count(*) FROM events`)
	author := staff.AuthorName{IntegrationID: w.partners[0], ExternalUUID: "ann"}
	testdb.Must(w.staff.EraseAuthor(t.Context(), author, "asked"))(t)
	if got := search(all); got != "D" {
		t.Errorf("erased, but not yet by the projection: %s", got)
	}
	project(t, w.staff, end)
	var left string
	for _, id := range testdb.Values[uuid.UUID](t, w.staff.Pool, `SELECT post_id FROM post_words ORDER BY log_index DESC`) {
		left += w.keys([]map[string]any{{"postId": id.String()}})
	}
	if left != "DB" {
		t.Errorf("there are words of %s", left)
	}
	// Another word may have the same hash.
	testdb.Exec(t, w.staff.Pool, `UPDATE post_words SET words = words || $1::bigint[]`, projections.WordHashes([]string{"other"}))
	if got := search("text=other"); got != "" {
		t.Errorf("the words of %s have a hash of another", got)
	}
}

// TestPostListsProbeIndexes: the pages are index scans, whether the tables are empty or large, and were never analysed.
func TestPostListsProbeIndexes(t *testing.T) {
	t.Parallel()
	url := testdb.New(t)
	pools := testdb.Must(database.Open(t.Context(), url))(t)
	t.Cleanup(pools.Close)
	pool := pools.General
	s := &staff.Staff{Pool: pool, Now: time.Now}
	probe := func(what, sql string, args ...any) {
		t.Helper()
		plan := strings.Join(testdb.Values[string](t, pool, "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) "+sql, args...), "\n")
		for _, bad := range []string{"Seq Scan", "Hash", "Merge", "Bitmap"} {
			if strings.Contains(plan, bad) {
				t.Errorf("%s: there is a %s:\n%s", what, bad, plan)
			}
		}
		for _, rows := range regexp.MustCompile(`rows=(\d+)|Removed by Filter: (\d+)`).FindAllStringSubmatch(plan, -1) {
			if n, _ := strconv.Atoi(rows[1] + rows[2]); n > 5000 {
				t.Errorf("%s: %d rows are read:\n%s", what, n, plan)
			}
		}
	}
	check := func(when string) {
		t.Helper()
		for _, f := range []staff.PostFilter{
			{},
			{NovelID: uuid.UUID{1}},
			{AuthorID: frequent},
			{IntegrationID: uuid.UUID{1}},
			{Chapter: "7"},
			{State: staff.OnlyVisible},
			{State: staff.OnlyHidden},
			{State: staff.OnlyEdited},
			{State: staff.OnlyWithdrawn},
			{State: staff.OnlyReported},
			{Sort: staff.Waiting},
			{State: staff.OnlyEdited, NovelID: uuid.UUID{2}},
			{Text: "rare"},
			{Text: "rare frequent", IntegrationID: uuid.UUID{1}},
			{Text: "frequent", NovelID: uuid.UUID{1}},
			{Text: "frequent", State: staff.OnlyHidden},
			{Text: "frequent", AuthorID: frequent},
			{Text: "frequent", Sort: staff.Waiting},
		} {
			f.Limit = 50
			sql, args, err := s.PostsStatement(t.Context(), f)
			testdb.NoError(t, err)
			probe(fmt.Sprintf("%s, %+v", when, f), sql, args...)
		}
		ofPost, ofAuthor := staff.ContextStatements()
		for i, sql := range ofPost {
			posts := testdb.Values[uuid.UUID](t, pool, `SELECT coalesce((SELECT post_id FROM posts WHERE log_index = 3000), $1)`,
				uuid.UUID{1})
			probe(fmt.Sprintf("%s, context %d", when, i), sql, posts[0])
		}
		probe(when+", counts", ofAuthor, frequent, 5000)
	}
	testdb.Exec(t, pool, `INSERT INTO projections (name, generation, position, state, updated_at)
		VALUES ('words', $1, 0, 'running', now())`, projections.Words{}.Generation())
	check("empty")
	fillPosts(t, pool, 30_000)
	check("grown")
	tx := testdb.Begin(t, pool)
	defer func() { _ = tx.Rollback(context.Background()) }()
	const readSQL = `SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'post_words'`
	before := testdb.Value[int](t, tx, readSQL)
	found := testdb.Value[int](t, tx, `SELECT count(*) FROM posts_with_words($1, 0, 30000, 5000)`,
		projections.WordHashes([]string{"rare", "frequent"}))
	if read := testdb.Value[int](t, tx, readSQL) - before; found != 30 || read != found {
		t.Errorf("%d comments have both words, and %d are read", found, read)
	}
}

// frequent is an author with a quarter of the comments in fillPosts.
var frequent = uuid.MustParse("0cc175b9-c0f1-b6a8-31c3-99e269772661")

// fillPosts writes n comments as the projection posts would, with their events: on ten novels, one in a hundred hidden,
// edited and withdrawn, one in five reported.
func fillPosts(t testing.TB, pool *pgxpool.Pool, n int) {
	t.Helper()
	testdb.Exec(t, pool, `INSERT INTO events (log_index, recorded_at, stream_version, stream_id, batch_id, integration_id, stream_type,
			event_type, event_source, event_id, data, personal)
		SELECT n, timestamptz '2025-01-01' + n * interval '1 s', 1, overlay(md5(n::text)::uuid::text placing
			left(encode(sha256(uuid_send(md5('p')::uuid) || convert_to(n::text, 'UTF8')), 'hex'), 8) || '-' ||
			substr(encode(sha256(uuid_send(md5('p')::uuid) || convert_to(n::text, 'UTF8')), 'hex'), 9, 4) from 1 for 13)::uuid,
			md5('b')::uuid, md5('p')::uuid, 'post', 'post.imported.v1', 's', n::text, '{}',
			'{"uuid":"u","username":"n","content":"text"}'
		FROM generate_series(0, $1::integer - 1) n`, n)
	testdb.Exec(t, pool, `INSERT INTO posts (post_id, thread_id, novel_id, integration_id, author_id, content_bytes, written_at,
			recorded_at, changed_at, log_index, hidden, withdrawn, edited_at)
		SELECT e.stream_id, md5('t' || n % 10)::uuid, lpad(n % 10 || repeat('0', 30), 32, '0')::uuid, e.integration_id,
			CASE WHEN n % 100 <> 1 THEN CASE WHEN n % 4 = 0 THEN $1::uuid ELSE md5('a' || n % 999)::uuid END END,
			CASE WHEN n % 100 <> 1 THEN 4 END, e.recorded_at, e.recorded_at, now(), n, n % 100 = 2, n % 100 = 1,
			CASE WHEN n % 100 = 3 THEN now() END
		FROM events e, LATERAL (SELECT e.log_index AS n) k`, frequent)
	testdb.Exec(t, pool, `INSERT INTO post_words SELECT log_index, post_id, ARRAY(SELECT log_index >> 16 << 32 | h
		FROM unnest(CASE WHEN log_index % 1000 = 0 THEN $1::bigint[] ELSE $2::bigint[] END) AS h) FROM posts WHERE author_id IS NOT NULL`,
		projections.WordHashes([]string{"frequent", "rare"}), projections.WordHashes([]string{"frequent"}))
	testdb.Exec(t, pool, `INSERT INTO reported_posts SELECT post_id, author_id, log_index, 1, 0, 0, 0, 0, 0, recorded_at, recorded_at
		FROM posts WHERE log_index % 5 = 4`)
}
