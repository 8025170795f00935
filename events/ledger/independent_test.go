package ledger_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"
	"golang.org/x/mod/sumdb/tlog"

	"novelgate/events/ledger"
	"novelgate/internal/httpkit"
	"novelgate/readapi"
)

// verifier is an independent one: it has an address and, from long ago, a public key, and knows nothing else of the
// service.
type verifier struct {
	t   testing.TB
	url string
	key string
}

func (v verifier) get(path string) (int, http.Header, []byte) {
	v.t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, v.url+path, http.NoBody)
	if err != nil {
		v.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		v.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return response.StatusCode, response.Header, body
}

func (v verifier) checkpoint() tlog.Tree {
	v.t.Helper()
	status, header, body := v.get("/ledger/checkpoint")
	if status != http.StatusOK || header.Get("Content-Type") != "text/plain; charset=utf-8" ||
		header.Get("Cache-Control") != "public, max-age=1" {
		v.t.Fatalf("checkpoint: %d, %v", status, header)
	}
	return openNote(v.t, body, v.key)
}

// path is the address of a tile in C2SP tlog-tiles.
func tilePath(kind string, n int64, width int) string {
	path := fmt.Sprintf("%03d", n%1000)
	for n /= 1000; n > 0; n /= 1000 {
		path = fmt.Sprintf("x%03d/", n%1000) + path
	}
	path = "/ledger/tile/" + kind + "/" + path
	if width < 256 {
		path += fmt.Sprintf(".p/%d", width)
	}
	return path
}

func (v verifier) tile(kind string, n int64, width int) []byte {
	v.t.Helper()
	path := tilePath(kind, n, width)
	status, header, body := v.get(path)
	if status != http.StatusOK || header.Get("Content-Type") != "application/octet-stream" ||
		header.Get("Cache-Control") != "public, max-age=31536000, immutable" {
		v.t.Fatalf("%s: %d, %v", path, status, header)
	}
	return body
}

func (verifier) Height() int { return 8 }

func (v verifier) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	data := make([][]byte, len(tiles))
	for i, tile := range tiles {
		data[i] = v.tile(fmt.Sprint(tile.L), tile.N, tile.W)
	}
	return data, nil
}

func (verifier) SaveTiles([]tlog.Tile, [][]byte) {}

// entries fetches all entries of a tree.
func (v verifier) entries(tree tlog.Tree) [][]byte {
	v.t.Helper()
	var entries [][]byte
	for n := int64(0); n*256 < tree.N; n++ {
		bundle := v.tile("entries", n, int(min(256, tree.N-n*256)))
		for len(bundle) > 0 {
			size := int(binary.BigEndian.Uint16(bundle))
			entries = append(entries, bundle[2:2+size])
			bundle = bundle[2+size:]
		}
	}
	return entries
}

// newVerifier serves the ledger of a signed database of 1400 events.
func newVerifier(t *testing.T) (verifier, func(n int)) {
	t.Helper()
	pool, signer := signedLedger(t)
	router := mux.NewRouter().SkipClean(true)
	api := &readapi.Ledger{
		Kit:   &httpkit.Kit{Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)},
		Store: ledger.NewStore(pool),
	}
	api.Register(router)
	server := httptest.NewServer(router)
	t.Cleanup(server.Close)
	return verifier{t: t, url: server.URL, key: signer.Keys()[0]}, func(n int) {
		appendEvents(t, pool, n)
		awaitSealed(t, pool)
		sign(t, signer)
	}
}

// TestIndependentVerifier fetches everything over HTTP and checks it with the libraries of sumdb alone.
func TestIndependentVerifier(t *testing.T) {
	t.Parallel()
	v, grow := newVerifier(t)
	if status, _, body := v.get("/ledger/key"); status != http.StatusOK || string(body) != v.key+"\n" {
		t.Errorf("key: %d, %s", status, body)
	}
	old := v.checkpoint()
	entries := v.entries(old)
	if int64(len(entries)) != old.N {
		t.Fatalf("%d entries of %d", len(entries), old.N)
	}
	// Every entry hashes to its place in the tree, and the tree to the root that was signed.
	hashes := tlog.TileHashReader(old, v)
	for n, entry := range entries {
		if !strings.HasPrefix(string(entry), "novelgate/event/v1\n") {
			t.Fatalf("entry %d is %q", n, entry)
		}
		if n%37 > 0 {
			continue
		}
		read, err := hashes.ReadHashes([]int64{tlog.StoredHashIndex(0, int64(n))})
		if err != nil || read[0] != tlog.RecordHash(entry) {
			t.Fatalf("entry %d: %v", n, err)
		}
	}
	for range 20 {
		n := rand.Int64N(old.N)
		status, header, body := v.get(fmt.Sprint("/ledger/proof?logIndex=", n))
		if status != http.StatusOK || header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Fatalf("proof of %d: %d, %s", n, status, body)
		}
		wantProof(t, body, n, tlog.RecordHash(entries[n]), []string{v.key})
	}
	// Later, the tree has grown from the one that the verifier remembers.
	grow(900)
	grown := v.checkpoint()
	proof, err := tlog.ProveTree(grown.N, old.N, tlog.TileHashReader(grown, v))
	if err != nil {
		t.Fatal(err)
	}
	if err := tlog.CheckTree(proof, grown.N, grown.Hash, old.N, old.Hash); grown.N != old.N+900 || err != nil {
		t.Errorf("from %d to %d: %v", old.N, grown.N, err)
	}
	// Partial tiles of older sizes are still there.
	v.tile("0", old.N/256, int(old.N%256))
	v.tile("entries", old.N/256, int(old.N%256))
}

func TestLedgerHasNothingElse(t *testing.T) {
	t.Parallel()
	v, _ := newVerifier(t) // 1400 entries: 5 full tiles and one of width 120; one of width 5 on level 1
	for path, want := range map[string]int{
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
		if caching := header.Get("Cache-Control"); status != http.StatusOK && caching != "" && caching != "no-store" {
			t.Errorf("%s: %d with %s", path, status, caching)
		}
	}
}
