package staff_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"

	"novelgate/docs"
	"novelgate/internal/testdb"
)

func TestBadCursors(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.post(t, "/api/admin/novels", `{"novel":"A"}`)
	d.post(t, "/api/admin/novels", `{"novel":"B"}`)
	d.post(t, "/api/admin/integrations", `{"name":"Second"}`)
	title := d.get(t, "/api/admin/novels?limit=1").str("nextCursor")
	place := d.get(t, "/api/admin/integrations?limit=1").str("nextCursor")
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
			a := d.get(t, path+"?cursor="+url.QueryEscape(cursor))
			if a.status != http.StatusBadRequest || a.code() != "invalid_request" || a.str("field") != "cursor" {
				t.Errorf("%s, cursor %q: %d %s", path, cursor, a.status, a.text)
			}
		}
		if a := d.get(t, path+"?cursor="); a.status != http.StatusOK {
			t.Errorf("%s, no cursor: %d %s", path, a.status, a.text)
		}
	}
}

// TestCursorsOfOtherLists: a cursor of one list is refused by every other list.
func TestCursorsOfOtherLists(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	novels, integrations := "/api/admin/novels", "/api/admin/integrations"
	lists := []string{novels, integrations}
	d.post(t, novels, `{"novel":"A"}`)
	d.post(t, novels, `{"novel":"B"}`)
	for _, id := range []string{d.integrationID, d.post(t, integrations, `{"name":"Second"}`).str("integrationId")} {
		keys, authors := integrations+"/"+id+"/keys", integrations+"/"+id+"/authors"
		lists = append(lists, keys, authors, integrations+"/"+id+"/refusals")
		testdb.Exec(t, d.staff.Pool, `INSERT INTO refusals (integration_id, refusal_id, refused_at, request_id, operation, code, detail)
SELECT $1, gen_random_uuid(), now(), 'r', 'posts', 'novel_not_found', 'd' FROM generate_series(1, 2)`, id)
		d.post(t, keys, `{}`)
		d.post(t, authors+"/marlow/block", `{"reason":"r"}`)
		d.post(t, authors+"/nostromo/block", `{"reason":"r"}`)
	}
	for _, of := range lists {
		cursor := d.get(t, of+"?limit=1").str("nextCursor")
		if cursor == "" {
			t.Fatalf("%s: no cursor", of)
		}
		for _, at := range lists {
			a := d.get(t, at+"?limit=1&cursor="+url.QueryEscape(cursor))
			if at == of && a.status != http.StatusOK {
				t.Errorf("%s: %d %s", at, a.status, a.text)
			}
			if at != of && (a.status != http.StatusBadRequest || a.str("field") != "cursor") {
				t.Errorf("the cursor of %s at %s: %d %s", of, at, a.status, a.text)
			}
		}
	}
}

// TestAReasonIsNotLost: a key is not revoked if the reason is invalid or has another name.
func TestAReasonIsNotLost(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	keys := "/api/admin/integrations/" + d.integrationID + "/keys"
	key := d.post(t, keys, `{}`).str("keyId")
	for _, query := range []string{
		"reason=leaked;rotate", "reason=%zz", "reasons=leaked", "reason=leaked&reason=rotate", "reason=leaked&x",
	} {
		if a := d.send(t, d.ada, http.MethodDelete, "/api/admin/keys/"+key+"?"+query, "",
			""); a.status != http.StatusBadRequest || a.code() != "invalid_request" || a.str("field") == "" {
			t.Errorf("%s: %d %s", query, a.status, a.text)
		}
	}
	for _, item := range d.get(t, keys).items(t) {
		if item["revokedAt"] != nil {
			t.Errorf("revoked: %v", item)
		}
	}
	if a := d.send(t, d.ada, http.MethodDelete, "/api/admin/keys/"+key+"?reason=leaked%3Brotate", "",
		""); a.status != http.StatusNoContent {
		t.Errorf("encoded: %d %s", a.status, a.text)
	}
}

// TestParametersAreDescribed sends every route the parameters of docs/openapi.yaml, and an unknown one.
func TestParametersAreDescribed(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	doc := testdb.Must(openapi3.NewLoader().LoadFromData(docs.OpenAPI))(t)
	routes, parameters := 0, 0
	for path, item := range doc.Paths.Map() {
		if !strings.HasPrefix(path, "/api/admin/") {
			continue
		}
		for method, operation := range item.Operations() {
			routes++
			query := []string{"nonsense="}
			for _, parameter := range operation.Parameters {
				if parameter.Value.In == openapi3.ParameterInQuery {
					parameters++
					query = append(query, parameter.Value.Name+"=")
				}
			}
			a := d.send(t, d.ada, method, strings.NewReplacer("{", "", "}", "").Replace(path)+"?"+strings.Join(query, "&"), "k",
				"{}")
			refused, _ := a.body["errors"].([]any)
			if a.status != http.StatusBadRequest || len(refused) != 1 || a.str("field") != "nonsense" {
				t.Errorf("%s %s?%s: %d %s", method, path, strings.Join(query, "&"), a.status, a.text)
			}
		}
	}
	if routes < 28 || parameters < 16 {
		t.Errorf("%d routes with %d parameters", routes, parameters)
	}
}

// TestWhatIsNoText sends text that PostgreSQL cannot store, in every path and body.
func TestWhatIsNoText(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	novel := d.post(t, "/api/admin/novels", `{"novel":"One"}`).str("novelId")
	key := d.post(t, "/api/admin/integrations/"+d.integrationID+"/keys", `{}`).str("keyId")
	if novel == "" || key == "" {
		t.Fatalf("novel %q, key %q", novel, key)
	}
	integration := "/api/admin/integrations/" + d.integrationID
	for what, bad := range map[string]string{
		"NUL": "%00", "NUL in a text": "a%00", "invalid UTF-8": "%ff", "a half of a pair": "a%ed%a0%80",
	} {
		for address, want := range map[string]int{
			"GET /api/admin/novels/" + bad:                              http.StatusNotFound,
			"DELETE /api/admin/keys/" + bad:                             http.StatusNotFound,
			"GET " + integration + "/authors/" + bad:                    http.StatusBadRequest,
			"DELETE " + integration + "/authors/" + bad + "?reason=a":   http.StatusBadRequest,
			"GET /api/admin/novels?text=" + bad:                         http.StatusBadRequest,
			"GET /api/admin/novels?title=" + bad:                        http.StatusBadRequest,
			"GET /api/admin/novels?state=" + bad:                        http.StatusBadRequest,
			"GET /api/admin/novels?owner=" + bad:                        http.StatusBadRequest,
			"GET /api/admin/novels?cursor=" + bad:                       http.StatusBadRequest,
			"GET /api/admin/novels?limit=" + bad:                        http.StatusBadRequest,
			"GET " + integration + "/authors?blocked=" + bad:            http.StatusBadRequest,
			"DELETE /api/admin/keys/" + key + "?reason=" + bad:          http.StatusBadRequest,
			"DELETE " + integration + "/authors/a/member?reason=" + bad: http.StatusBadRequest,
		} {
			method, path, _ := strings.Cut(address, " ")
			if got := d.send(t, d.ada, method, path, "", ""); got.status != want {
				t.Errorf("%s: %s: %d %s, want %d", what, address, got.status, got.text, want)
			}
		}
	}
	for _, text := range []string{`\u0000`, `a\u0000`, "\xff", `\ud800`} {
		for address, body := range map[string]string{
			"PATCH " + integration:                      `{"name":"TEXT"}`,
			"POST /api/admin/novels":                    `{"novel":"TEXT"}`,
			"POST /api/admin/novels ":                   `{"novel":"Two","reason":"TEXT"}`,
			"POST /api/admin/novels/reject":             `{"novel":"Three","reason":"TEXT"}`,
			"POST /api/admin/novels/reject ":            `{"novel":"TEXT","reason":"a"}`,
			"PATCH /api/admin/novels/" + novel:          `{"author":"b","reason":"TEXT"}`,
			"PATCH /api/admin/novels/" + novel + " ":    `{"genres":["TEXT"],"reason":"a"}`,
			"PUT " + integration + "/authors/a/member":  `{"memberId":"TEXT","reason":"a"}`,
			"PUT " + integration + "/authors/a/member ": `{"memberId":"m","reason":"TEXT"}`,
			"POST " + integration + "/authors/a/block":  `{"reason":"TEXT"}`,
		} {
			method, path, _ := strings.Cut(address, " ")
			body = strings.Replace(body, "TEXT", text, 1)
			got := d.send(t, d.ada, method, strings.TrimSpace(path), uuid.NewString(), body)
			if got.status != http.StatusBadRequest {
				t.Errorf("%s %s: %d %s", address, body, got.status, got.text)
			}
		}
	}
}
