package readapi_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gorilla/mux"

	"novelgate/readapi"
)

func TestReadyzShowsProjections(t *testing.T) {
	t.Parallel()
	fine := func() map[string]error { return map[string]error{"append": nil, "limits": nil} }
	away := errors.New("away")
	for name, c := range map[string]struct {
		probe       func() map[string]error
		projections func(context.Context) (any, error)
		status      int
		body        string
	}{
		"nobody asks": {fine, nil, http.StatusOK, `{"status":"ok"}`},
		"where they stand": {
			fine, func(context.Context) (any, error) { return []string{"posts"}, nil }, http.StatusOK,
			`{"status":"ok","projections":["posts"]}`,
		},
		"that is not known": {
			fine, func(context.Context) (any, error) { return nil, away }, http.StatusOK,
			`{"status":"ok","projections":"unknown: the database did not say in time"}`,
		},
		"one thing is missing": {
			func() map[string]error { return map[string]error{"append": nil, "limits": away} }, nil,
			http.StatusServiceUnavailable, `{"status":"unavailable","reason":"away","probes":{"limits":"away"}}`,
		},
		"two things are missing": {
			func() map[string]error { return map[string]error{"limits": away, "append": errors.New("full")} }, nil,
			http.StatusServiceUnavailable, `{"status":"unavailable","reason":"full","probes":{"append":"full","limits":"away"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			router := mux.NewRouter()
			(&readapi.Health{Probe: c.probe, Draining: func() bool { return false }, Projections: c.projections}).Register(
				router)
			answer := httptest.NewRecorder()
			router.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
			if answer.Code != c.status || strings.TrimSpace(answer.Body.String()) != c.body {
				t.Errorf("%d %s", answer.Code, answer.Body)
			}
		})
	}
}
