package admin_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"novelgate/events"
	"novelgate/internal/testdb"
	"novelgate/projections"
)

func (d *desk) authors() string { return "/api/admin/integrations/" + d.integrationID + "/authors" }

// author is the address of an author, whatever their identifier.
func (d *desk) author(external string) string { return d.authors() + "/" + segment(external) }

// segment encodes every byte that a path might give a meaning to.
func segment(s string) string {
	return strings.NewReplacer(".", "%2E").Replace(url.PathEscape(s))
}

func TestAuthorOverHTTP(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	path := d.author("user-1")
	if a := d.send(t, d.ada, http.MethodGet, path, "", ""); a.code() != "not_found" {
		t.Errorf("unknown: %d %s", a.status, a.text)
	}
	for range 2 { // PUT is idempotent
		a := d.send(t, d.ada, http.MethodPut, path+"/member", "", `{"memberId":"member-7","reason":"signed in"}`)
		if a.status != http.StatusOK || a.str("memberId") != "member-7" || a.str("uuid") != "user-1" ||
			a.body["blocked"] != false || a.body["displayName"] != nil {
			t.Errorf("link: %d %s", a.status, a.text)
		}
	}
	for _, step := range []struct {
		verb, member string
		want         any
	}{
		{"block", "blocked", true},
		{"unblock", "blocked", false},
		{"hide-posts", "postsHidden", true},
		{"restore-posts", "postsHidden", false},
	} {
		const key = "the-same-for-each-address"
		a := d.send(t, d.ada, http.MethodPost, path+"/"+step.verb, key, `{"reason":"r"}`)
		if a.status != http.StatusOK || a.body[step.member] != step.want || a.header.Get("Idempotent-Replayed") != "" {
			t.Errorf("%s: %d %s", step.verb, a.status, a.text)
		}
		again := d.send(t, d.ada, http.MethodPost, path+"/"+step.verb, key, `{"reason":"r"}`)
		if again.status != http.StatusOK || again.body[step.member] != step.want ||
			again.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s with the same key: %d %s", step.verb, again.status, again.text)
		}
		if none := d.send(t, d.ada, http.MethodPost, path+"/"+step.verb, "x"+step.verb,
			`{}`); none.code() != "invalid_request" || none.str("field") != "reason" {
			t.Errorf("%s without reason: %d %s", step.verb, none.status, none.text)
		}
	}
	other := d.send(t, d.ada, http.MethodPost, d.author("user-2")+"/block", "the-same-for-each-address", `{"reason":"r"}`)
	if other.status != http.StatusOK || other.body["blocked"] != true || other.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("another author with the same key: %d %s", other.status, other.text)
	}
	for verb, detail := range map[string]string{
		"unblock":       "An author who is unblocked cannot become unblocked.",
		"restore-posts": "Comments of an author that are visible cannot become visible.",
	} {
		if a := d.send(t, d.ada, http.MethodPost, path+"/"+verb, "again-"+verb,
			`{"reason":"r"}`); a.status != http.StatusConflict || a.code() != "invalid_transition" || a.str("detail") != detail {
			t.Errorf("%s again: %d %s", verb, a.status, a.text)
		}
	}
	shown := d.send(t, d.ada, http.MethodGet, path, "", "")
	history, _ := shown.body["history"].([]any)
	if len(history) != 5 {
		t.Fatalf("history: %s", shown.text)
	}
	first, _ := history[0].(map[string]any)
	if personal, _ := first["personal"].(map[string]any); first["type"] != "author.linked.v1" ||
		first["actor"] != "staff:ada" || personal["memberId"] != "member-7" || personal["uuid"] != "user-1" {
		t.Errorf("history begins with %v", first)
	}
	if data := fmt.Sprint(first["data"]); strings.Contains(data, "member-7") || strings.Contains(data, "user-1") {
		t.Errorf("what is personal is in the data: %s", data)
	}
	if a := d.send(t, d.ada, http.MethodDelete, path+"/member?reason=asked", "", ""); a.status != http.StatusNoContent {
		t.Errorf("unlink: %d %s", a.status, a.text)
	}
	if a := d.send(t, d.ada, http.MethodDelete, path+"/member", "", ""); a.code() != "invalid_transition" ||
		a.str("detail") != "An author who is unlinked cannot become unlinked." {
		t.Errorf("unlink again: %d %s", a.status, a.text)
	}
	if list := d.send(t, d.ada, http.MethodGet, d.authors()+"?linked=false&blocked=false", "",
		"").items(t); len(list) != 1 || list[0]["uuid"] != "user-1" {
		t.Errorf("list: %v", list)
	}
}

// TestAuthorAddresses: the partner's identifier may hold anything that a comment may carry, and nothing else.
func TestAuthorAddresses(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	names := []string{
		"a/b", "/", "//", ".", "..", "../..", "a/../b", "%", "%2F", "a%2Fb", "?", "#", "a b", "+", ";=,", "{uuid}", "member",
		"block", "日本", "a\nb", "\\", `"'<>`,
		"x" + strings.Repeat("é", 254),
	}
	for i, name := range names {
		put := d.send(t, d.ada, http.MethodPut, d.author(name)+"/member", "", fmt.Sprintf(`{"memberId":"member-%d"}`, i))
		if put.status != http.StatusOK || put.str("uuid") != name {
			t.Errorf("%q: %d %s", name, put.status, put.text)
			continue
		}
		if put.str("authorId") != events.AuthorID(uuid.MustParse(d.integrationID), name).String() {
			t.Errorf("%q: author %s", name, put.str("authorId"))
		}
	}
	for i, name := range names { // each is another author
		if a := d.send(t, d.ada, http.MethodGet, d.author(name), "", ""); a.str("memberId") != fmt.Sprintf("member-%d", i) {
			t.Errorf("%q: %d %s", name, a.status, a.text)
		}
	}
	const member, reason = `{"memberId":"m"}`, `{"reason":"r"}`
	for _, name := range []string{
		"", "%20%09", "a%00b", "%FF", strings.Repeat("x", 256), strings.Repeat("x", 32<<10),
		strings.Repeat("%F0%9F%8E%89", 256),
	} {
		for _, request := range [][3]string{
			{http.MethodGet, "", ""},
			{http.MethodPut, "/member", member},
			{http.MethodDelete, "/member", ""},
			{http.MethodPost, "/block", reason},
		} {
			a := d.send(t, d.ada, request[0], d.authors()+"/"+name+request[1], "key", request[2])
			if a.code() != "invalid_request" || a.str("field") != "uuid" {
				t.Errorf("%s %.30q%s: %d %s", request[0], name, request[1], a.status, a.text)
			}
		}
	}
	for _, request := range [][2]string{
		{http.MethodGet, d.authors() + "/a/b"}, // not encoded: another address
		{http.MethodGet, "/api/admin/integrations/" + uuid.NewString() + "/authors"},
		{http.MethodPut, "/api/admin/integrations/" + uuid.NewString() + "/authors/u/member"},
		{http.MethodGet, "/api/admin/integrations/unknown/authors/u"},
	} {
		if a := d.send(t, d.ada, request[0], request[1], "", member); a.status != http.StatusNotFound {
			t.Errorf("%s %s: %d %s", request[0], request[1], a.status, a.text)
		}
	}
}

// TestLinkAttributesEverything: however much an author has written, the link is one event, shows at once, and touches
// no post.
func TestLinkAttributesEverything(t *testing.T) {
	t.Parallel()
	const posts = 5_000
	d := newDesk(t)
	d.importPosts(t, "prolific", posts)
	d.importPosts(t, "other", 10)
	d.follow(t)

	before := d.rows(t)
	logged := d.count(t, `SELECT count(*) FROM events`)
	for i, step := range []struct {
		method, body string
		status       int
		member       string
	}{
		{http.MethodPut, `{"memberId":"member-1"}`, http.StatusOK, "member-1"},
		{http.MethodPut, `{"memberId":"member-2"}`, http.StatusOK, "member-2"},
		{http.MethodDelete, "", http.StatusNoContent, ""},
	} {
		if a := d.send(t, d.ada, step.method, d.author("prolific")+"/member", "", step.body); a.status != step.status {
			t.Fatalf("%s %s: %d %s", step.method, step.body, a.status, a.text)
		}
		answered := time.Now()
		attributed := d.count(t, `SELECT count(*) FROM analytics.posts WHERE member_id = $1`, step.member)
		took := time.Since(answered)
		want := posts
		if step.member == "" {
			want = 0
		}
		if attributed != want {
			t.Errorf("%q: %d posts, want %d", step.member, attributed, want)
		}
		if n := d.count(t, `SELECT count(*) FROM analytics.posts WHERE member_id IS NOT NULL`); n != want {
			t.Errorf("%q: %d posts have a member, want %d", step.member, n, want)
		}
		t.Logf("%s %s: all of %d posts read %s after the answer", step.method, step.body, posts, took)
		if n := d.count(t, `SELECT count(*) FROM events`) - logged; n != i+1 {
			t.Errorf("%d events after %d commands", n, i+1)
		}
	}
	if after := d.rows(t); after != before {
		t.Error("posts were rewritten")
	}
}

// importPosts appends what the comments of one author leave in the log.
func (d *desk) importPosts(t *testing.T, external string, n int) {
	t.Helper()
	integrationID := uuid.MustParse(d.integrationID)
	const size = 5000
	for done := 0; done < n; done += size {
		recorded := make([]events.Recorded, min(size, n-done))
		for i := range recorded {
			key := fmt.Sprintf("%s-%d", external, done+i)
			recorded[i] = events.Recorded{
				StreamType: events.PostStream, StreamID: events.PostID(integrationID, key), StreamVersion: 1, ID: key,
				Source: events.PostsSource(integrationID),
				Event: events.PostImported{
					IntegrationID: integrationID, NovelID: uuid.UUID{1}, ThreadID: uuid.UUID{2},
					WrittenAt: time.Unix(int64(done+i), 0).UTC(),
					Comment:   &events.Comment{ExternalUUID: external, Username: "Name", Content: "content of " + key},
				},
			}
		}
		if err := projections.Append(t.Context(), d.staff.Pool, recorded...); err != nil {
			t.Fatal(err)
		}
	}
}

// follow runs the projections until they have applied the whole log.
func (d *desk) follow(t *testing.T) {
	t.Helper()
	runner, err := projections.NewRunner(projections.Config{Pool: d.staff.Pool, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	testdb.Eventually(t, "the projections have caught up", func() bool {
		return d.count(t, `SELECT count(*) FROM projections WHERE (transaction_id, position) >= (
			SELECT transaction_id, position FROM events ORDER BY transaction_id DESC, position DESC LIMIT 1)`) >= len(projections.All())
	})
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func (d *desk) count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	if err := d.staff.Pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// rows digests which versions of which rows the table of posts consists of.
func (d *desk) rows(t *testing.T) (digest string) {
	t.Helper()
	err := d.staff.Pool.QueryRow(t.Context(),
		`SELECT md5(string_agg(post_id::text || xmin || ctid, ',' ORDER BY post_id)) FROM posts`).Scan(&digest)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// TestEraseBehindAnOlderTransaction: a transaction that began before the erasure may hold more comments. The request
// waits for it as long as a request may take, is then refused for the moment, and goes on when it is repeated.
func TestEraseBehindAnOlderTransaction(t *testing.T) {
	t.Parallel()
	const comments = 3
	for name, c := range map[string]struct {
		projected bool // the table of posts shows the comments: they are erased before the erasure is recorded
		left      int  // comments, while the transaction runs
	}{
		"shown by the posts": {true, 0}, "found in the log": {false, comments},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.kit.Timeout = time.Second
			d.importPosts(t, "user-1", comments)
			if c.projected {
				d.follow(t)
			}
			older, err := d.staff.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = older.Rollback(context.Background()) }()
			if _, err := older.Exec(t.Context(), `SELECT pg_current_xact_id()`); err != nil {
				t.Fatal(err)
			}
			erase := d.author("user-1") + "?reason=asked"
			left := func() int {
				return d.count(t,
					`SELECT count(*) FROM events WHERE event_type = 'post.imported.v1' AND personal ->> 'uuid' = 'user-1'`)
			}
			for range 2 {
				a := d.send(t, d.ada, http.MethodDelete, erase, "", "")
				if a.status != http.StatusServiceUnavailable || a.code() != "unavailable" || a.body["retryable"] != true ||
					a.header.Get("Retry-After") == "" {
					t.Errorf("an older transaction runs: %d %v %s", a.status, a.header, a.text)
				}
				if n := left(); n != c.left {
					t.Errorf("%d comments are left while an older transaction runs, want %d", n, c.left)
				}
				if n := d.count(t, `SELECT count(*) FROM events WHERE event_type = 'author.erased.v1'`); n != 1 {
					t.Errorf("%d erasures are on record", n)
				}
			}

			if err := older.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			deadline := time.Now().Add(testdb.UntilSettled)
			a := d.send(t, d.ada, http.MethodDelete, erase, "", "")
			// a transaction of another test may delay the log
			for a.status == http.StatusServiceUnavailable && time.Now().Before(deadline) {
				a = d.send(t, d.ada, http.MethodDelete, erase, "", "")
			}
			if a.status != http.StatusOK || left() != 0 {
				t.Fatalf("all is settled: %d %s, %d comments are left", a.status, a.text, left())
			}
		})
	}
}
