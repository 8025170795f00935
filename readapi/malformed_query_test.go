package readapi_test

import (
	"net/http"
	"strings"
	"testing"

	"novelgate/events"
)

// TestNoPartOfAQueryIsLost sends queries that cannot be read as a whole: the answer must not be that to another
// question.
func TestNoPartOfAQueryIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	novel := w.novel(t, "A", nil)
	id := w.comment(t, novel, events.PostImported{})
	w.project(t)
	for path, parameter := range map[string]string{
		"/api/novels":               "q",
		"/api/novels/a":             "asOf",
		"/api/novels/a/discussion":  "chapter",
		"/api/posts/" + id.String(): "x",
		"/novels":                   "limit",
		"/novels/a":                 "asOf",
		"/novels/a/discussion":      "post",
	} {
		if got := w.get(t, path); got.Code != http.StatusOK {
			t.Errorf("GET %s: %d %s", path, got.Code, got.Body)
		}
		for _, query := range []string{parameter + "=%zz", parameter + "=1;2", "x=1&" + parameter + "=%", parameter + "%=1"} {
			got := w.get(t, path+"?"+query)
			if got.Code != http.StatusBadRequest ||
				!strings.Contains(got.Body.String(), "query: is not well formed; in a value, % is written %25") {
				t.Errorf("GET %s?%s: %d %s", path, query, got.Code, got.Body)
			}
		}
	}
	if got := w.get(t, "/?campaign=50%off"); got.Code != http.StatusOK { // it has no parameters
		t.Errorf("GET / with a query that is not well formed: %d %s", got.Code, got.Body)
	}
}
