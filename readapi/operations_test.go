package readapi_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"novelgate/events/ledger"
	"novelgate/internal/testdb"
	"novelgate/internal/web"
	"novelgate/readapi"
)

func TestReadyzShowsProjections(t *testing.T) {
	t.Parallel()
	fine := func() map[string]error { return map[string]error{"append": nil, "access": nil} }
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
			`{"status":"ok","projections":"unknown: it could not be read"}`,
		},
		"one thing is missing": {
			func() map[string]error { return map[string]error{"append": nil, "access": away} }, nil,
			http.StatusServiceUnavailable, `{"status":"unavailable","reason":"away","probes":{"access":"away"}}`,
		},
		"two things are missing": {
			func() map[string]error { return map[string]error{"access": errors.New("full"), "append": away} }, nil,
			http.StatusServiceUnavailable, `{"status":"unavailable","reason":"full","probes":{"access":"full","append":"away"}}`,
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

// TestLedgerOfASilentDatabase: readers of the ledger get an answer in time, even if the database hangs.
func TestLedgerOfASilentDatabase(t *testing.T) {
	t.Parallel()
	listener := testdb.Must((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
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
	pool := testdb.Pool(t, "postgres://nobody@"+listener.Addr().String()+"/nothing?sslmode=disable")
	router := mux.NewRouter()
	(&readapi.Ledger{
		Kit:   &web.Kit{Timeout: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)},
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
