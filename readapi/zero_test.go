package readapi_test

import (
	"testing"

	"github.com/google/uuid"

	"novelgate/events"
)

// TestZeroIsGiven: the first moment of the calendar and the nil UUID are values like any other.
func TestZeroIsGiven(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.comment(t, w.novel(t, "A", nil), events.PostImported{})
	w.project(t)
	for _, query := range []string{"?asOf=0001-01-01T00:00:00Z", "?asOf=0001-01-01T01:00:00%2B01:00"} {
		wantProblem(t, w, "/api/novels/a"+query, 404, "not_found")
		wantProblem(t, w, "/api/novels/a/discussion"+query, 404, "not_found")
		for _, page := range []string{"/novels/a", "/novels/a/discussion"} {
			if got := w.get(t, page+query); got.Code != 404 {
				t.Errorf("GET %s%s: %d", page, query, got.Code)
			}
		}
	}
	none := uuid.Nil.String()
	for _, query := range []string{"?under=" + none, "?post=" + none} {
		wantProblem(t, w, "/api/novels/a/discussion"+query, 404, "not_found")
	}
	wantProblem(t, w, "/api/novels/a/discussion?under="+none+"&post="+none, 400, "invalid_request")
}
