//go:build look || checks

package readapi_test

import (
	"log/slog"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"novelgate/internal/web"
	"novelgate/readapi"
	"novelgate/readapi/pages"
)

// serve serves the pages of w until the test ends, and returns their address.
func serve(t *testing.T, w *world, site pages.Site) string {
	t.Helper()
	server := httptest.NewServer(routes(slog.New(slog.DiscardHandler), time.Now, &readapi.Reader{DB: w.Read},
		web.NewAddresses(&url.URL{Scheme: "http", Host: "127.0.0.1"}), site))
	t.Cleanup(server.Close)
	return server.URL
}
