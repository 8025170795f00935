package readapi_test

import (
	"encoding/base64"
	"net/http"
	"testing"
)

// TestWhatIsNoText sends what PostgreSQL takes for no text wherever an address holds any.
func TestWhatIsNoText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	novel := w.novel(t, "A", nil)
	w.comment(t, novel, reply(w.comment(t, novel, reply(novel))))
	w.project(t)
	id := "7a0c1d1c-6a0e-5d4e-8f37-9a9a2c6d4c0"
	for what, bad := range map[string]string{
		"NUL": "%00", "NUL in a text": "a%00", "invalid UTF-8": "%ff", "a half of a pair": "a%ed%a0%80",
		"a cut character": "%e2%82",
	} {
		for path, want := range map[string]int{
			"/api/novels/" + bad: http.StatusNotFound,
			"/api/novels/" + bad + "?asOf=2030-01-01T00:00:00Z":   http.StatusNotFound,
			"/api/novels/" + bad + "/discussion":                  http.StatusNotFound,
			"/api/novels/" + bad + "/discussion?post=" + id + "2": http.StatusNotFound,
			"/novels/" + bad:                            http.StatusNotFound,
			"/novels/" + bad + "/discussion":            http.StatusNotFound,
			"/assets/" + bad:                            http.StatusNotFound,
			"/api/posts/" + bad:                         http.StatusNotFound,
			"/api/posts/" + id + bad:                    http.StatusNotFound,
			"/api/novels?q=" + bad:                      http.StatusBadRequest,
			"/api/novels?state=" + bad:                  http.StatusBadRequest,
			"/api/novels?owner=" + bad:                  http.StatusBadRequest,
			"/api/novels?limit=" + bad:                  http.StatusBadRequest,
			"/api/novels?cursor=" + bad:                 http.StatusBadRequest,
			"/novels?q=" + bad:                          http.StatusBadRequest,
			"/novels?owner=" + bad:                      http.StatusBadRequest,
			"/api/novels/a?asOf=" + bad:                 http.StatusBadRequest,
			"/api/novels/a/discussion?sort=" + bad:      http.StatusBadRequest,
			"/api/novels/a/discussion?chapter=" + bad:   http.StatusBadRequest,
			"/api/novels/a/discussion?cursor=" + bad:    http.StatusBadRequest,
			"/api/novels/a/discussion?under=" + bad:     http.StatusBadRequest,
			"/api/novels/a/discussion?post=" + bad:      http.StatusBadRequest,
			"/api/novels/a/discussion?post=" + id + bad: http.StatusBadRequest,
			"/novels/a/discussion?chapter=" + bad:       http.StatusBadRequest,
			"/novels/a/discussion?asOf=" + bad:          http.StatusBadRequest,
		} {
			if got := w.get(t, path); got.Code != want {
				t.Errorf("%s: GET %s: %d, want %d", what, path, got.Code, want)
			}
		}
	}
	for what, inside := range map[string]string{"NUL": "ca\x00", "invalid UTF-8": "c\xff"} {
		cursor := base64.RawURLEncoding.EncodeToString([]byte(inside))
		for _, path := range []string{
			"/api/novels?cursor=" + cursor, "/novels?cursor=" + cursor, "/api/novels/a/discussion?cursor=" + cursor,
		} {
			if got := w.get(t, path); got.Code != http.StatusBadRequest {
				t.Errorf("%s in a cursor: GET %s: %d", what, path, got.Code)
			}
		}
	}
}
