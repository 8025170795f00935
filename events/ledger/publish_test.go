package ledger_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/ledger"
	"novelgate/internal/testdb"
)

// newPublisher returns a publisher of the current origin.
func newPublisher(t testing.TB, pool *pgxpool.Pool, target ledger.Target) *ledger.Publisher {
	t.Helper()
	var origin string
	err := pool.QueryRow(t.Context(), `SELECT origin FROM ledger_origins ORDER BY ordinal DESC LIMIT 1`).Scan(&origin)
	if err != nil {
		t.Fatal(err)
	}
	return ledger.NewPublisher(ledger.PublisherConfig{
		Pool: pool, Origin: origin, Target: target, Logger: slog.New(slog.DiscardHandler),
	})
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

// TestPublishToEndpoint: the endpoint fails at first, and gets every checkpoint in the end, in order.
func TestPublishToEndpoint(t *testing.T) {
	t.Parallel()
	pool, signer := signedLedger(t)
	var mu sync.Mutex
	var sizes []int64
	var refusals int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPut || r.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s, %v, %v", r.Method, r.Header, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(sizes) == 1 && refusals < 2 {
			refusals++
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		sizes = append(sizes, openNote(t, text, signer.Keys()...).N)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	address := testdb.Must(url.Parse(server.URL + "/checkpoints"))(t)
	failures := 0
	for range 4 { // as after restarts: a publisher has no state
		if err := newPublisher(t, pool, ledger.NewEndpoint(pool, http.MethodPut, address)).Publish(t.Context()); err != nil {
			failures++
		}
	}
	if failures != 2 {
		t.Errorf("%d failures, want 2", failures)
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff([]int64{0, 7, 1400}, sizes); diff != "" {
		t.Errorf("published (-want +got):\n%s", diff)
	}
}

// TestPublishFollowsNoRedirect: a redirect may turn a POST into a GET without the checkpoint, whose 200 proves nothing.
func TestPublishFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	pool, _ := signedLedger(t)
	for _, status := range []int{301, 302, 303, 307, 308} {
		var followed atomic.Bool
		mux := http.NewServeMux()
		mux.HandleFunc("/old", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/new", status) })
		mux.HandleFunc("/new", func(http.ResponseWriter, *http.Request) { followed.Store(true) })
		server := httptest.NewServer(mux)
		address, err := url.Parse(server.URL + "/old")
		if err != nil {
			t.Fatal(err)
		}
		err = newPublisher(t, pool, ledger.NewEndpoint(pool, http.MethodPost, address)).Publish(t.Context())
		server.Close()
		if followed.Load() {
			t.Errorf("%d was followed", status)
		}
		if err == nil || !strings.Contains(err.Error(), strconv.Itoa(status)) ||
			!strings.Contains(err.Error(), server.URL+"/new") {
			t.Errorf("%d: the error does not say where to: %v", status, err)
		}
	}
	if n := count(t, pool, "ledger_publications"); n != 0 {
		t.Errorf("%d publications are on record, and no checkpoint was taken", n)
	}
}
