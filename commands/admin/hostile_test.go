package admin_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// TestWhatIsNoText sends what PostgreSQL takes for no text wherever an address or a body holds any.
func TestWhatIsNoText(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
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
			"GET /api/admin/integrations/" + bad:                        http.StatusNotFound,
			"GET /api/admin/novels/" + bad:                              http.StatusNotFound,
			"GET /api/admin/posts/" + bad:                               http.StatusNotFound,
			"DELETE /api/admin/keys/" + bad:                             http.StatusNotFound,
			"GET " + integration + "/authors/" + bad:                    http.StatusBadRequest,
			"DELETE " + integration + "/authors/" + bad + "?reason=a":   http.StatusBadRequest,
			"GET /api/admin/novels?text=" + bad:                         http.StatusBadRequest,
			"GET /api/admin/novels?state=" + bad:                        http.StatusBadRequest,
			"GET /api/admin/novels?owner=" + bad:                        http.StatusBadRequest,
			"GET /api/admin/novels?cursor=" + bad:                       http.StatusBadRequest,
			"GET /api/admin/novels?limit=" + bad:                        http.StatusBadRequest,
			"GET /api/admin/integrations?cursor=" + bad:                 http.StatusBadRequest,
			"GET " + integration + "/keys?cursor=" + bad:                http.StatusBadRequest,
			"GET " + integration + "/authors?cursor=" + bad:             http.StatusBadRequest,
			"GET " + integration + "/authors?blocked=" + bad:            http.StatusBadRequest,
			"DELETE /api/admin/keys/" + key + "?reason=" + bad:          http.StatusBadRequest,
			"DELETE " + integration + "/authors/a?reason=" + bad:        http.StatusBadRequest,
			"DELETE " + integration + "/authors/a/member?reason=" + bad: http.StatusBadRequest,
		} {
			method, path, _ := strings.Cut(address, " ")
			if got := d.send(t, d.ada, method, path, "", ""); got.status != want {
				t.Errorf("%s: %s: %d %s, want %d", what, address, got.status, got.text, want)
			}
		}
	}
	id := uuid.MustParse(d.integrationID)
	authors := "a" + string(id[:])
	for what, inside := range map[string]string{
		"NUL": "ta\x00", "invalid UTF-8": "t\xff", "NUL of an author": authors + "a\x00",
		"invalid UTF-8 of an author": authors + "\xff",
	} {
		cursor := "?cursor=" + base64.RawURLEncoding.EncodeToString([]byte(inside))
		for _, path := range []string{
			"/api/admin/novels", "/api/admin/integrations", integration + "/keys", integration + "/authors",
		} {
			if got := d.send(t, d.ada, http.MethodGet, path+cursor, "", ""); got.status != http.StatusBadRequest {
				t.Errorf("%s in a cursor: GET %s: %d %s", what, path, got.status, got.text)
			}
		}
	}
	for _, text := range []string{`\u0000`, `a\u0000`, "\xff", `\ud800`} {
		for address, body := range map[string]string{
			"POST /api/admin/integrations":                           `{"name":"TEXT"}`,
			"PATCH " + integration:                                   `{"name":"TEXT"}`,
			"POST /api/admin/novels":                                 `{"novel":"TEXT"}`,
			"POST /api/admin/novels ":                                `{"novel":"Two","reason":"TEXT"}`,
			"POST /api/admin/novels/reject":                          `{"novel":"Three","reason":"TEXT"}`,
			"POST /api/admin/novels/reject ":                         `{"novel":"TEXT","reason":"a"}`,
			"PATCH /api/admin/novels/" + novel:                       `{"author":"TEXT","reason":"a"}`,
			"PATCH /api/admin/novels/" + novel + " ":                 `{"author":"b","reason":"TEXT"}`,
			"PATCH /api/admin/novels/" + novel + "  ":                `{"genres":["TEXT"],"reason":"a"}`,
			"POST /api/admin/novels/" + novel + "/reject":            `{"reason":"TEXT"}`,
			"POST /api/admin/novels/" + novel + "/approve":           `{"reason":"TEXT"}`,
			"POST /api/admin/novels/" + novel + "/publish":           `{"reason":"TEXT"}`,
			"PUT " + integration + "/authors/a/member":               `{"memberId":"TEXT","reason":"a"}`,
			"PUT " + integration + "/authors/a/member ":              `{"memberId":"m","reason":"TEXT"}`,
			"POST " + integration + "/authors/a/block":               `{"reason":"TEXT"}`,
			"POST " + integration + "/authors/a/unblock":             `{"reason":"TEXT"}`,
			"POST " + integration + "/authors/a/hide-posts":          `{"reason":"TEXT"}`,
			"POST " + integration + "/authors/a/restore-posts":       `{"reason":"TEXT"}`,
			"POST /api/admin/posts/" + uuid.NewString() + "/hide":    `{"reason":"TEXT"}`,
			"POST /api/admin/posts/" + uuid.NewString() + "/restore": `{"reason":"TEXT"}`,
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
