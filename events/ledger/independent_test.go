package ledger_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/ledger"
	"novelgate/internal/testdb"
	"novelgate/internal/web"
	"novelgate/readapi"
)

// verifier is an independent verifier that only knows an address and a public key.
type verifier struct {
	t   testing.TB
	url string
}

// serve serves the ledger of a database.
func serve(t *testing.T, pool *pgxpool.Pool) verifier {
	t.Helper()
	router := mux.NewRouter().SkipClean(true)
	api := &readapi.Ledger{
		Kit:   &web.Kit{Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)},
		Store: ledger.NewStore(pool),
	}
	api.Register(router)
	server := httptest.NewServer(router)
	t.Cleanup(server.Close)
	return verifier{t, server.URL}
}

func (v verifier) get(path string) (status int, header http.Header, body []byte) {
	v.t.Helper()
	response, err := http.Get(v.url + path)
	if err != nil {
		v.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if body, err = io.ReadAll(response.Body); err != nil {
		v.t.Fatal(err)
	}
	return response.StatusCode, response.Header, body
}

func (verifier) Height() int { return 8 }

func (v verifier) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	data := make([][]byte, len(tiles))
	for i, tile := range tiles {
		path := fmt.Sprintf("/ledger/tile/%d/%03d", tile.L, tile.N)
		if tile.W < 256 {
			path += fmt.Sprintf(".p/%d", tile.W)
		}
		status, _, body := v.get(path)
		if status != http.StatusOK {
			return nil, fmt.Errorf("%s: %d", path, status)
		}
		data[i] = body
	}
	return data, nil
}

func (verifier) SaveTiles([]tlog.Tile, [][]byte) {}

// TestIndependentVerifier fetches everything over HTTP and checks it with the libraries of sumdb: an inclusion proof,
// and that the tree extends an older one.
func TestIndependentVerifier(t *testing.T) {
	t.Parallel()
	pool, signer := signedLedger(t)
	v, keys := serve(t, pool), signer.Keys()
	read := func(path string) []byte {
		t.Helper()
		status, _, body := v.get(path)
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, status, body)
		}
		return body
	}
	if key := read("/ledger/key"); string(key) != keys[0]+"\n" {
		t.Errorf("key: %s", key)
	}
	then := openNote(t, read("/ledger/checkpoint"), keys...)
	for _, n := range []int64{0, 255, 256, then.N - 1} {
		width := min(256, then.N-n/256*256)
		path := fmt.Sprintf("/ledger/tile/entries/%03d", n/256)
		if width < 256 {
			path += fmt.Sprintf(".p/%d", width)
		}
		entries := testdb.Must(ledger.SplitBundle(read(path), int(width)))(t)
		wantProof(t, read(fmt.Sprint("/ledger/proof?logIndex=", n)), n, tlog.RecordHash(entries[n%256]), keys)
	}
	appendEvents(t, pool, 900)
	awaitSealed(t, pool)
	sign(t, signer)
	now := openNote(t, read("/ledger/checkpoint"), keys...)
	proof := testdb.Must(tlog.ProveTree(now.N, then.N, tlog.TileHashReader(now, v)))(t)
	if err := tlog.CheckTree(proof, now.N, now.Hash, then.N, then.Hash); now.N != then.N+900 || err != nil {
		t.Errorf("from %d to %d: %v", then.N, now.N, err)
	}
}

// TestLedgerOverHTTP: the paths are exactly those of C2SP tlog-tiles. Immutable files may be cached for ever, and
// missing ones not at all.
func TestLedgerOverHTTP(t *testing.T) {
	t.Parallel()
	pool, _ := signedLedger(t) // 1400 entries: 5 full tiles and one of width 120; one of width 5 on level 1
	v := serve(t, pool)
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
		status, header, body := v.get(path)
		if status != want {
			t.Errorf("%s: %d %s, want %d", path, status, body, want)
		}
		caching, mediaType := header.Get("Cache-Control"), header.Get("Content-Type")
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

// signedLedger returns a ledger with checkpoints of 0, 7 and 1400 entries.
func signedLedger(t testing.TB) (*pgxpool.Pool, *ledger.Signer) {
	t.Helper()
	pool := newPool(t)
	signer := newSigner(t, pool, ledger.IdentityConfig{})
	startSealer(t, ledger.SealerConfig{Pool: pool})
	sign(t, signer)
	for _, n := range []int{7, 1393} {
		appendEvents(t, pool, n)
		awaitSealed(t, pool)
		sign(t, signer)
	}
	return pool, signer
}
