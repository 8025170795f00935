package readapi_test

import (
	"log/slog"
	"net/http"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/internal/httpkit"
	"novelgate/readapi"
)

func TestTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	address, err := url.Parse(public)
	if err != nil {
		t.Fatal(err)
	}
	nowhere, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/nothing")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nowhere.Close)
	reader := &readapi.Reader{DB: nowhere}
	w := &world{handler: routes(slog.New(slog.DiscardHandler), reader, httpkit.NewAddresses(address))}
	for _, path := range []string{
		"/api/novels", "/api/novels/a", "/api/novels/a/discussion", "/api/posts/7a0c1d1c-6a0e-5d4e-8f37-9a9a2c6d4c02",
	} {
		wantProblem(t, w, path, http.StatusServiceUnavailable, "unavailable")
	}
	for _, path := range []string{"/novels", "/novels/a", "/novels/a/discussion"} {
		checkPage(t, w, path)
		if got := w.get(t, path); got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") != "1" ||
			got.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v", path, got.Code, got.Header())
		}
	}
}
