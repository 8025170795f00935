package imports_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/commands/access"
	"novelgate/commands/imports"
	"novelgate/commands/ratelimit"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
	"novelgate/internal/testdb"
)

// partner is the integration of all requests.
type partner struct {
	access.Integration
	revoked func() bool // tells whether the key is revoked; nil: it is not
}

// Admit implements imports.Partners.
func (p *partner) Admit(context.Context, http.ResponseWriter, *http.Request) (*access.Integration, func(), error) {
	return &p.Integration, func() {}, nil
}

// StillAdmitted implements imports.Partners.
func (p *partner) StillAdmitted(context.Context, *http.Request) error {
	if p.revoked != nil && p.revoked() {
		return problem.Unauthorized("The API key is not valid.")
	}
	return nil
}

// Status implements imports.Limits.
func (*partner) Status(ratelimit.Key, int) ratelimit.Decision {
	return ratelimit.Decision{}
}

// handler returns the routes of imports for an integration.
func (f *fixture) handler(integration uuid.UUID) http.Handler {
	return f.handlerOf(&partner{
		Integration: access.Integration{IntegrationID: integration, Enabled: true, CanImport: true},
	})
}

// handlerOf returns the routes of imports for a partner.
func (f *fixture) handlerOf(p *partner) http.Handler {
	api := &imports.API{
		Kit:      &httpkit.Kit{Logger: slog.New(slog.DiscardHandler), Now: f.worker.Now, Timeout: time.Minute},
		Partners: p, Limits: p, Store: f.worker.Store, Wake: func() {},
	}
	router := mux.NewRouter()
	api.Register(router)
	return httpkit.WithRequestID(router)
}

// put sends a part.
func put(
	t *testing.T, handler http.Handler, id uuid.UUID, offset int, coding string, body io.Reader,
) *httptest.ResponseRecorder {
	t.Helper()
	path := fmt.Sprintf("/api/integrations/imports/%s/lines?offset=%d", id, offset)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, path, body)
	r.Header.Set("Content-Type", "application/x-ndjson")
	r.Header.Set("Content-Encoding", coding)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// TestMemoryOfAPart: however the coding is spelled, an integration has the memory of one decoder of zstd.
func TestMemoryOfAPart(t *testing.T) {
	t.Parallel()
	f := setup(t)
	integration := f.integration(t)
	open := testdb.Must(f.worker.Store.Open(t.Context(), integration))(t)
	handler := f.handler(integration)
	put := func(coding string, body io.Reader) int { return put(t, handler, open, 0, coding, body).Code }
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

// TestRevocationDuringAPart: the key is revoked while a part arrives. The rest of the part is not stored.
func TestRevocationDuringAPart(t *testing.T) {
	t.Parallel()
	f := setup(t)
	integration := f.integration(t)
	id := testdb.Must(f.worker.Store.Open(t.Context(), integration))(t)
	chunks := 0
	handler := f.handlerOf(&partner{
		Integration: access.Integration{IntegrationID: integration, Enabled: true, CanImport: true},
		revoked:     func() bool { chunks++; return chunks > 1 },
	})
	answer := put(t, handler, id, 0, "", strings.NewReader(strings.Repeat("x\n", 3_000)))
	if answer.Code != http.StatusUnauthorized {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
	if i, err := f.worker.Store.Find(t.Context(), integration, id); err != nil || i.Lines != 1_000 {
		t.Errorf("%d lines, %v", i.Lines, err)
	}
}

// TestSpoolIsLimited: parts are refused while the lines of an integration take the limit, and accepted once lines are
// stored, or those that failed are deleted.
func TestSpoolIsLimited(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.worker.Store.MaxSpool = 100
	integration := f.integration(t)
	handler := f.handler(integration)
	id := testdb.Must(f.worker.Store.Open(t.Context(), integration))(t)
	lines := 0
	send := func(want int, line string) http.Header {
		t.Helper()
		answer := put(t, handler, id, lines, "", strings.NewReader(line))
		if answer.Code != want {
			t.Errorf("%d %s, want %d", answer.Code, answer.Body, want)
		}
		if answer.Code == http.StatusNoContent {
			lines++
		}
		return answer.Header()
	}
	long := strings.Repeat("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", 2)
	send(http.StatusNoContent, comment("1", "", long))
	if wait := send(http.StatusTooManyRequests, comment("2", "", "more")).Get("Retry-After"); wait != "10" {
		t.Errorf("Retry-After: %q", wait)
	}
	again := put(t, handler, id, 0, "", strings.NewReader(comment("1", "", long)))
	if again.Code != http.StatusNoContent {
		t.Errorf("a part that is stored: %d %s", again.Code, again.Body)
	}
	work := func() {
		for f.visit(t) {
		}
	}
	work()
	send(http.StatusNoContent, `{"operation":"posts","idempotencyKey":"bad","body":"`+long+`"}`)
	work()
	send(http.StatusConflict, comment("3", "", "more"))
}

// TestSpoolOfWaitingReplies: what is stored about replies that wait counts as well.
func TestSpoolOfWaitingReplies(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.worker.Store.MaxSpool = 300
	integration := f.integration(t)
	id := testdb.Must(f.worker.Store.Open(t.Context(), integration))(t)
	part := strings.NewReader(comment("reply", "none", "c"))
	if answer := put(t, f.handler(integration), id, 0, "", part); answer.Code != http.StatusNoContent {
		t.Fatalf("%d %s", answer.Code, answer.Body)
	}
	for f.visit(t) {
	}
	size := testdb.Value[int](t, f.pool, `SELECT spooled FROM imports`)
	answer := put(t, f.handler(integration), id, 1, "", strings.NewReader("x"))
	if answer.Code != http.StatusTooManyRequests || size >= 300 {
		t.Errorf("%d %s, and the line has %d bytes", answer.Code, answer.Body, size)
	}
}

// TestSpoolOfCancelledImports: the lines of a cancelled import leave the spool with the next purge, its results stay.
func TestSpoolOfCancelledImports(t *testing.T) {
	t.Parallel()
	f := setup(t)
	integration := f.integration(t)
	id := f.spool(t, integration, comment("1", "", "c")+"bad\n", comment("2", "", "c"))
	f.visit(t) // the first chunk
	f.worker.Store.MaxSpool = 1
	if _, err := f.worker.Store.Cancel(t.Context(), integration, id); err != nil {
		t.Fatal(err)
	}
	next := testdb.Must(f.worker.Store.Open(t.Context(), integration))(t)
	part := func() int { return put(t, f.handler(integration), next, 0, "", strings.NewReader("x")).Code }
	if status := part(); status != http.StatusTooManyRequests {
		t.Errorf("before the purge: %d", status)
	}
	if err := f.worker.Store.Purge(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
	f.wantMeasured(t)
	if chunks := testdb.Value[int](t, f.pool, `SELECT count(*)::int FROM import_chunks`); chunks != 1 {
		t.Errorf("%d chunks are left, want 1", chunks)
	}
	f.worker.Store.MaxSpool = 100 // more than the line that failed
	if status := part(); status != http.StatusNoContent {
		t.Errorf("after the purge: %d", status)
	}
}

// TestResultsDuringAPurge: a purge deletes results in several transactions, so none are listed once it may have begun,
// not even for a request that came before.
func TestResultsDuringAPurge(t *testing.T) {
	t.Parallel()
	f := setup(t)
	integration := f.integration(t)
	id := f.spool(t, integration, "bad\n")
	f.visit(t)
	if _, err := f.worker.Store.Cancel(t.Context(), integration, id); err != nil {
		t.Fatal(err)
	}
	handler := f.handler(integration)
	list := func(path string, want int) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/integrations/imports/"+id.String()+path, nil)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: %d %s, want %d", path, w.Code, w.Body, want)
		}
	}
	list("/results", http.StatusOK)
	list("/failed", http.StatusOK)

	purging := testdb.Begin(t, f.pool)
	testdb.Exec(t, purging, `LOCK TABLE import_chunks`)
	var requests sync.WaitGroup
	requests.Go(func() { list("/results", http.StatusGone) })
	requests.Go(func() { list("/failed", http.StatusGone) })
	testdb.Eventually(t, "the requests have found the import, and wait for its chunks", func() bool {
		return testdb.Value[int](t, f.pool, `SELECT count(*)::int FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 2
	})
	// The clock of the database counts, as for the purge.
	testdb.Exec(t, f.pool, `UPDATE imports SET ended_at = now() - 2 * $1::interval`, f.worker.Store.Retention)
	testdb.Exec(t, purging, `DELETE FROM import_chunks`)
	if err := purging.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	requests.Wait()
	list("/results", http.StatusGone)
	list("/failed", http.StatusGone)
}

// TestOpenImportsAreLimited: requests at the same time open no more imports than allowed.
func TestOpenImportsAreLimited(t *testing.T) {
	t.Parallel()
	f := setup(t)
	integration := f.integration(t)
	const requests, limit = 60, 20
	refused := make(chan error, requests)
	for range requests {
		go func() {
			_, err := f.worker.Store.Open(t.Context(), integration)
			refused <- err
		}()
	}
	opened := 0
	for range requests {
		switch err := <-refused; {
		case err == nil:
			opened++
		case !errors.Is(err, problem.Conflict("")):
			t.Error(err)
		}
	}
	if opened != limit {
		t.Errorf("%d imports are open, want %d", opened, limit)
	}
}
