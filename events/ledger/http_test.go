package ledger_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"novelgate/events/ledger"
	"novelgate/internal/web"
	"novelgate/readapi"
)

// TestLedgerOverHTTP: the paths are exactly those of C2SP tlog-tiles. Immutable files may be cached for ever, and
// missing ones not at all.
func TestLedgerOverHTTP(t *testing.T) {
	t.Parallel()
	pool := newSealedPool(t, 1400) // 5 full tiles and one of width 120; one of width 5 on level 1
	sign(t, newSigner(t, pool, ledger.IdentityConfig{}))
	router := mux.NewRouter().SkipClean(true)
	api := &readapi.Ledger{
		Kit:   &web.Kit{Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)},
		Store: ledger.NewStore(pool),
	}
	api.Register(router)
	for path, want := range map[string]int{
		"/ledger/checkpoint": 200, "/ledger/key": 200,
		"/ledger/tile/0/005.p/120": 200, "/ledger/tile/0/005.p/121": 404, "/ledger/tile/0/005": 404,
		"/ledger/tile/0/006":     404,
		"/ledger/tile/0/004.p/7": 200, "/ledger/tile/0/004.p/0": 404, "/ledger/tile/0/004.p/256": 404,
		"/ledger/tile/0/004.p/007": 404,
		"/ledger/tile/1/000.p/5":   200, "/ledger/tile/1/000.p/6": 404, "/ledger/tile/1/000": 404,
		"/ledger/tile/2/000.p/1":         404,
		"/ledger/tile/entries/005.p/120": 200, "/ledger/tile/entries/005": 404, "/ledger/tile/entries/004": 200,
		"/ledger/tile/entries/004.p/3":  200,
		"/ledger/tile/entries/x000/004": 404, "/ledger/tile/entries/x001/004": 404, "/ledger/tile/data/004": 404,
		"/ledger/tile/8/0/004": 404,
		"/ledger/tile/0/4":     404, "/ledger/tile/00/004": 404, "/ledger/tile/-1/004": 404, "/ledger/tile/63/000.p/1": 404,
		"/ledger/tile/999/000":                        404,
		"/ledger/tile/0/x999/x999/x999/x999/x999/999": 404, "/ledger/tile/0/x999/x999/x999/x999/x999/x999/x999/999": 404,
		"/ledger/tile/0/../0/004": 404,
		"/ledger/tile/":           404, "/ledger/tile/0": 404, "/ledger/tile/entries/": 404,
		"/ledger/proof": 400, "/ledger/proof?logIndex=x": 400, "/ledger/proof?logIndex=-1": 400,
		"/ledger/proof?logIndex=1e2":                  400,
		"/ledger/proof?logIndex=99999999999999999999": 400, "/ledger/proof?logIndex=1400": 404,
		"/ledger/proof?logIndex=1399": 200,
	} {
		answer := httptest.NewRecorder()
		router.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		status := answer.Code
		if status != want {
			t.Errorf("%s: %d %s, want %d", path, status, answer.Body, want)
		}
		caching, mediaType := answer.Header().Get("Cache-Control"), answer.Header().Get("Content-Type")
		switch tile := strings.HasPrefix(path, "/ledger/tile/"); {
		case want != http.StatusOK && (caching == "" || caching == "no-store"):
		case want == http.StatusOK && tile && caching == "public, max-age=31536000, immutable" &&
			mediaType == "application/octet-stream":
		case want == http.StatusOK && !tile && caching == "public, max-age=1" && mediaType == "text/plain; charset=utf-8":
		default:
			t.Errorf("%s: %d of type %q with %q", path, status, mediaType, caching)
		}
	}
}
