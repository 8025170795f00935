package staff_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"novelgate/internal/testdb"
)

func (d *fixture) authors() string { return "/api/admin/integrations/" + d.integrationID + "/authors" }

// author returns the path of an author with any identifier.
func (d *fixture) author(external string) string { return d.authors() + "/" + segment(external) }

// segment percent-encodes every special byte.
func segment(s string) string {
	return strings.NewReplacer(".", "%2E").Replace(url.PathEscape(s))
}

func TestAuthorOverHTTP(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	path := d.author("user-1")
	if a := d.get(t, path); a.code() != "not_found" {
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
		"unblock":       "The author is unblocked already.",
		"restore-posts": "The comments of the author are visible already.",
	} {
		if a := d.send(t, d.ada, http.MethodPost, path+"/"+verb, "again-"+verb,
			`{"reason":"r"}`); a.status != http.StatusConflict || a.code() != "invalid_transition" || a.str("detail") != detail {
			t.Errorf("%s again: %d %s", verb, a.status, a.text)
		}
	}
	shown := d.get(t, path)
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
		a.str("detail") != "The author is unlinked already." {
		t.Errorf("unlink again: %d %s", a.status, a.text)
	}
	list := d.get(t, d.authors()+"?linked=false&blocked=false").items(t)
	if len(list) != 1 || list[0]["uuid"] != "user-1" {
		t.Errorf("list: %v", list)
	}
}

// TestAuthorAddresses: the path accepts exactly the identifiers that comments may have.
func TestAuthorAddresses(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
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
		if put.str("authorId") != testdb.AuthorID(uuid.MustParse(d.integrationID), name).String() {
			t.Errorf("%q: author %s", name, put.str("authorId"))
		}
	}
	for i, name := range names { // each is another author
		if a := d.get(t, d.author(name)); a.str("memberId") != fmt.Sprintf("member-%d", i) {
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
		{http.MethodGet, d.authors() + "/a/b"}, // not encoded: another path
		{http.MethodGet, "/api/admin/integrations/" + uuid.NewString() + "/authors"},
		{http.MethodPut, "/api/admin/integrations/" + uuid.NewString() + "/authors/u/member"},
		{http.MethodGet, "/api/admin/integrations/unknown/authors/u"},
	} {
		if a := d.send(t, d.ada, request[0], request[1], "", member); a.status != http.StatusNotFound {
			t.Errorf("%s %s: %d %s", request[0], request[1], a.status, a.text)
		}
	}
}
