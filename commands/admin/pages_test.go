package admin_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestPages walks every list by two while it grows, and compares with the list at the start.
func TestPages(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	keys := "/api/admin/integrations/" + d.integrationID + "/keys"
	grow := map[string]func(n int){
		"/api/admin/integrations": func(n int) {
			d.post(t, "/api/admin/integrations", fmt.Sprintf(`{"name":"Added %d"}`, n))
		},
		keys:                func(int) { d.post(t, keys, `{}`) },
		"/api/admin/novels": func(n int) { d.post(t, "/api/admin/novels", fmt.Sprintf(`{"novel":"Zz added %d"}`, n)) },
	}
	names := map[string]string{"/api/admin/integrations": "integrationId", keys: "keyId", "/api/admin/novels": "novelId"}
	for path, add := range grow {
		for n := range 5 {
			add(n)
		}
		var want, got []any
		for _, item := range d.send(t, d.ada, http.MethodGet, path, "", "").items(t) {
			want = append(want, item[names[path]])
		}
		query := "?limit=2"
		for page := 0; ; page++ {
			a := d.send(t, d.ada, http.MethodGet, path+query, "", "")
			items := a.items(t)
			for _, item := range items {
				got = append(got, item[names[path]])
			}
			if len(items) < 2 && a.body["nextCursor"] != nil || page > 50 {
				t.Fatalf("%s: page %d: %s", path, page, a.text)
			}
			if a.body["nextCursor"] == nil {
				break
			}
			query = "?limit=2&cursor=" + url.QueryEscape(a.str("nextCursor"))
			if page < 3 {
				add(900 + page) // behind those before
			}
		}
		if len(got) != len(want)+3 || fmt.Sprint(got[:len(want)]) != fmt.Sprint(want) {
			t.Errorf("%s: %d items by two, %d at the start\n%v\n%v", path, len(got), len(want), got, want)
		}
	}
}

func TestBadCursors(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.post(t, "/api/admin/novels", `{"novel":"A"}`)
	d.post(t, "/api/admin/novels", `{"novel":"B"}`)
	d.post(t, "/api/admin/integrations", `{"name":"Second"}`)
	title := d.send(t, d.ada, http.MethodGet, "/api/admin/novels?limit=1", "", "").str("nextCursor")
	place := d.send(t, d.ada, http.MethodGet, "/api/admin/integrations?limit=1", "", "").str("nextCursor")
	if title == "" || place == "" {
		t.Fatalf("no cursors: %q, %q", title, place)
	}
	encode := func(raw string) string { return base64.RawURLEncoding.EncodeToString([]byte(raw)) }
	lists := map[string][]string{
		"/api/admin/novels": {place, encode("t"), encode("t\xff"), encode("ta\x00b")},
		"/api/admin/integrations": {
			title, place + "AAAA", place[:len(place)-4], encode("i"),
			encode("i\x7f\xff\xff\xff\xff\xff\xff\xff0123456789abcdef"),
			encode("i\x80\x00\x00\x00\x00\x00\x00\x000123456789abcdef"),
		},
		"/api/admin/integrations/" + d.integrationID + "/keys": {title, place},
	}
	for path, cursors := range lists {
		for _, cursor := range append(cursors, "%", "*", "AA==", "last", " ", d.integrationID) {
			a := d.send(t, d.ada, http.MethodGet, path+"?cursor="+url.QueryEscape(cursor), "", "")
			if a.status != http.StatusBadRequest || a.code() != "invalid_request" || a.str("field") != "cursor" {
				t.Errorf("%s, cursor %q: %d %s", path, cursor, a.status, a.text)
			}
		}
		if a := d.send(t, d.ada, http.MethodGet, path+"?cursor=", "", ""); a.status != http.StatusOK {
			t.Errorf("%s, no cursor: %d %s", path, a.status, a.text)
		}
	}
}

// TestCursorsOfOtherLists: the place in one list says nothing about another, be it one of the same kind.
func TestCursorsOfOtherLists(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	novels, integrations := "/api/admin/novels", "/api/admin/integrations"
	lists := []string{novels, integrations}
	d.post(t, novels, `{"novel":"A"}`)
	d.post(t, novels, `{"novel":"B"}`)
	for _, id := range []string{d.integrationID, d.post(t, integrations, `{"name":"Second"}`).str("integrationId")} {
		keys, authors := integrations+"/"+id+"/keys", integrations+"/"+id+"/authors"
		lists = append(lists, keys, authors)
		d.post(t, keys, `{}`)
		d.post(t, authors+"/marlow/block", `{"reason":"r"}`)
		d.post(t, authors+"/nostromo/block", `{"reason":"r"}`)
	}
	for _, of := range lists {
		cursor := d.send(t, d.ada, http.MethodGet, of+"?limit=1", "", "").str("nextCursor")
		if cursor == "" {
			t.Fatalf("%s: no cursor", of)
		}
		for _, at := range lists {
			a := d.send(t, d.ada, http.MethodGet, at+"?limit=1&cursor="+url.QueryEscape(cursor), "", "")
			if at == of && a.status != http.StatusOK {
				t.Errorf("%s: %d %s", at, a.status, a.text)
			}
			if at != of && (a.status != http.StatusBadRequest || a.str("field") != "cursor") {
				t.Errorf("the cursor of %s at %s: %d %s", of, at, a.status, a.text)
			}
		}
	}
}

// TestPagesOfLargeItems: a page takes no more than half a megabyte and one item more, and the next goes on behind it. A
// novel's history is as long.
func TestPagesOfLargeItems(t *testing.T) {
	t.Parallel()
	const novels, most = 60, 512<<10 + 30<<10
	d := newDesk(t)
	synopsis := strings.Repeat("🜁", 5_000) // 20 KB
	for n := range novels {
		d.post(t, "/api/admin/novels", fmt.Sprintf(`{"novel":"Large %02d","synopsis":%q}`, n, synopsis))
	}
	read, pages := 0, 0
	for query := "?limit=500"; query != ""; pages++ {
		a := d.send(t, d.ada, http.MethodGet, "/api/admin/novels"+query, "", "")
		if len(a.text) > most || pages > novels {
			t.Fatalf("page %d has %d bytes", pages, len(a.text))
		}
		read += len(a.items(t))
		query = ""
		if a.body["nextCursor"] != nil {
			query = "?limit=500&cursor=" + url.QueryEscape(a.str("nextCursor"))
		}
	}
	if read < novels || pages < 3 {
		t.Errorf("%d novels on %d pages", read, pages)
	}
	id := d.send(t, d.ada, http.MethodGet, "/api/admin/novels?text=large&limit=1", "", "").items(t)[0]["novelId"]
	path := fmt.Sprint("/api/admin/novels/", id)
	for n := range 40 {
		d.send(t, d.ada, http.MethodPatch, path, "", fmt.Sprintf(`{"synopsis":%q}`, fmt.Sprint(n, synopsis[4*5:])))
	}
	a := d.send(t, d.ada, http.MethodGet, path, "", "")
	if history, _ := a.body["history"].([]any); len(a.text) > 2*most || len(history) < 20 || len(history) > 35 {
		t.Errorf("a history of %d events in %d bytes", len(history), len(a.text))
	}
}
