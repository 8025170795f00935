package readapi_test

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5/pgxpool"

	"novelgate/events/ledger"
	"novelgate/internal/httpkit"
	"novelgate/readapi"
)

// TestLedgerOfASilentDatabase: readers of the ledger are answered when their time is up, whatever the database does.
func TestLedgerOfASilentDatabase(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() }) //nolint:errcheck // nothing is lost
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
	}()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@"+listener.Addr().String()+"/nothing?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	router := mux.NewRouter()
	(&readapi.Ledger{
		Kit:   &httpkit.Kit{Timeout: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)},
		Store: ledger.NewStore(pool),
	}).Register(router)
	for _, path := range []string{"/ledger/checkpoint", "/ledger/key", "/ledger/proof?logIndex=0", "/ledger/tile/0/000"} {
		recorder := httptest.NewRecorder()
		router.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		if recorder.Code != http.StatusServiceUnavailable {
			t.Errorf("GET %s: %d", path, recorder.Code)
		}
	}
}
