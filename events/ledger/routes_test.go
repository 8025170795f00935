package ledger_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"novelgate/events/ledger"
	"novelgate/internal/httpkit"
	"novelgate/readapi"
)

// TestLedgerOverHTTP: the addresses are those of C2SP tlog-tiles, and there are no others. What never changes may be
// cached for ever, and what is not there, not at all.
func TestLedgerOverHTTP(t *testing.T) {
	t.Parallel()
	pool, _ := signedLedger(t) // 1400 entries: 5 full tiles and one of width 120; one of width 5 on level 1
	router := mux.NewRouter().SkipClean(true)
	api := &readapi.Ledger{
		Kit:   &httpkit.Kit{Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)},
		Store: ledger.NewStore(pool),
	}
	api.Register(router)
	server := httptest.NewServer(router)
	defer server.Close()
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
		response, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != want {
			t.Errorf("%s: %d %s, want %d, %v", path, response.StatusCode, body, want, err)
		}
		caching, mediaType := response.Header.Get("Cache-Control"), response.Header.Get("Content-Type")
		switch tile := strings.HasPrefix(path, "/ledger/tile/"); {
		case want != http.StatusOK && (caching == "" || caching == "no-store"):
		case want == http.StatusOK && tile && caching == "public, max-age=31536000, immutable" &&
			mediaType == "application/octet-stream":
		case want == http.StatusOK && !tile && caching == "public, max-age=1" && mediaType == "text/plain; charset=utf-8":
		default:
			t.Errorf("%s: %d of type %q with %q", path, response.StatusCode, mediaType, caching)
		}
	}
}
