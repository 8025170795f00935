package imports_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/commands/access"
	"novelgate/commands/imports"
	"novelgate/commands/ratelimit"
	"novelgate/internal/httpkit"
	"novelgate/internal/testdb"
)

// partner is the integration of all requests.
type partner struct{ access.Integration }

// Admit implements imports.Partners.
func (p *partner) Admit(context.Context, http.ResponseWriter, *http.Request) (*access.Integration, func(), error) {
	return &p.Integration, func() {}, nil
}

// Status implements imports.Limits.
func (*partner) Status(uuid.UUID, ratelimit.Operation, int) ratelimit.Decision {
	return ratelimit.Decision{}
}

// handler returns the routes of imports for an integration.
func (f *fixture) handler(integration uuid.UUID) http.Handler {
	p := &partner{access.Integration{IntegrationID: integration, Enabled: true, CanImport: true}}
	api := &imports.API{
		Kit:      &httpkit.Kit{Logger: slog.New(slog.DiscardHandler), Now: time.Now, Timeout: time.Minute},
		Partners: p, Limits: p, Store: f.worker.Store, Wake: func() {},
	}
	router := mux.NewRouter()
	api.Register(router)
	return httpkit.WithRequestID(router)
}

// TestMemoryOfAPart: however the coding is spelled, an integration has the memory of one decoder of zstd.
func TestMemoryOfAPart(t *testing.T) {
	t.Parallel()
	f := setup(t)
	integration := f.integration(t)
	open := testdb.Must(f.worker.Store.Open(t.Context(), integration))(t)
	handler := f.handler(integration)
	put := func(coding string, body io.Reader) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/api/integrations/imports/"+open.String()+
			"/lines?offset=0", body)
		r.Header.Set("Content-Type", "application/x-ndjson")
		r.Header.Set("Content-Encoding", coding)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
	for _, coding := range []string{"zstd", "ZSTD", " Zstd"} {
		body, writer := io.Pipe()
		first := make(chan int, 1)
		go func() { first <- put(coding, body) }()
		if _, err := writer.Write([]byte("x")); err != nil { // until the decoder reads
			t.Fatal(err)
		}
		if status := put(coding, strings.NewReader("x")); status != http.StatusTooManyRequests {
			t.Errorf("%q: %d, want 429", coding, status)
		}
		_ = writer.Close() // never fails
		if status := <-first; status != http.StatusBadRequest {
			t.Errorf("%q: %d, want 400", coding, status)
		}
	}
}
