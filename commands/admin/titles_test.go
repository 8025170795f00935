package admin_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// post sends a POST of staff under a key of its own.
func (d *desk) post(t *testing.T, path, body string) answer {
	t.Helper()
	d.sent++
	return d.send(t, d.ada, http.MethodPost, path, fmt.Sprint("post-", d.sent), body)
}

// TestBarredTitle shows what staff see of a title that nobody has imported.
func TestBarredTitle(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const novels = "/api/admin/novels"
	barred := d.post(t, novels+"/reject", `{"novel":" Moby  Dick ","reason":"no whales"}`)
	if barred.status != http.StatusOK || barred.str("state") != "rejected" || barred.str("owner") != "none" ||
		barred.str("novel") != "Moby Dick" || barred.str("slug") != "moby-dick" {
		t.Fatalf("%d %s", barred.status, barred.text)
	}
	path := novels + "/" + barred.str("novelId")
	if a := d.send(t, d.ada, http.MethodPatch, path, "", `{"author":"A"}`); a.status != http.StatusConflict ||
		a.code() != "conflict" || !strings.Contains(a.str("detail"), "approve and publish it first") {
		t.Errorf("edit: %d %s", a.status, a.text)
	}
	for query, want := range map[string]int{
		"?owner=none": 1, "?owner=host": 0, "?state=rejected": 1, "?state=free": 0, "": 1,
	} {
		if got := d.send(t, d.ada, http.MethodGet, novels+query, "", "").items(t); len(got) != want {
			t.Errorf("%s: %d", query, len(got))
		}
	}
	if a := d.post(t, path+"/approve", `{"reason":"fine"}`); a.str("state") != "free" {
		t.Errorf("approve: %d %s", a.status, a.text)
	}
	if a := d.send(t, d.ada, http.MethodPatch, path, "", `{"author":"A"}`); a.code() != "conflict" ||
		!strings.Contains(a.str("detail"), "publish it first") {
		t.Errorf("edit a free title: %d %s", a.status, a.text)
	}
	if got := d.send(t, d.ada, http.MethodGet, novels+"?state=free", "", "").items(t); len(got) != 1 {
		t.Errorf("free: %v", got)
	}
	shown := d.send(t, d.ada, http.MethodGet, path, "", "")
	var types []any
	for _, entry := range shown.body["history"].([]any) {
		types = append(types, entry.(map[string]any)["type"])
	}
	if fmt.Sprint(types) != "[novel.barred.v1 novel.unbarred.v1]" || shown.str("state") != "free" {
		t.Errorf("history: %s", shown.text)
	}
}

// TestCanonicalFields publishes with all fields, and edits them.
func TestCanonicalFields(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const novels = "/api/admin/novels"
	made := d.post(t, novels,
		`{"novel":"Genji","author":" Murasaki ","synopsis":"A prince.","coverUrl":"https://example.com/c","genres":["court"],"language":"ja","readingStatus":"completed","reason":"ours"}`)
	if made.status != http.StatusCreated {
		t.Fatalf("%d %s", made.status, made.text)
	}
	want := map[string]any{
		"novel": "Genji", "author": "Murasaki", "synopsis": "A prince.", "coverUrl": "https://example.com/c",
		"genres": []any{"court"}, "language": "ja",
		"readingStatus": "completed", "owner": "host", "state": "published",
	}
	check := func(a answer) {
		t.Helper()
		for name, value := range want {
			if fmt.Sprint(a.body[name]) != fmt.Sprint(value) {
				t.Errorf("%s is %v, want %v", name, a.body[name], value)
			}
		}
	}
	check(made)
	path := novels + "/" + made.str("novelId")
	edited := d.send(t, d.ada, http.MethodPatch, path, "",
		`{"author":"Murasaki Shikibu","genres":[],"language":null,"reason":"full name"}`)
	want["author"], want["genres"] = "Murasaki Shikibu", []any{}
	check(edited)
	if again := d.send(t, d.ada, http.MethodPatch, path, "",
		`{"author":"Murasaki Shikibu"}`); again.status != http.StatusOK {
		t.Errorf("again: %d %s", again.status, again.text)
	}
	shown := d.send(t, d.ada, http.MethodGet, path, "", "")
	history, _ := shown.body["history"].([]any)
	if len(history) != 2 {
		t.Fatalf("history: %s", shown.text)
	}
	if entry, _ := history[1].(map[string]any); fmt.Sprint(entry["data"]) != "map[author:Murasaki Shikibu genres:[] "+
		"reason:full name]" || entry["actor"] != "staff:ada" {
		t.Errorf("history: %v", history[1])
	}
	if a := d.send(t, d.ada, http.MethodPatch, path, "", `{"novel":"Heike"}`); a.status != http.StatusBadRequest ||
		a.str("field") != "novel" {
		t.Errorf("a title: %d %s", a.status, a.text)
	}
}
