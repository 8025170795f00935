package commands_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5"

	"novelgate/commands"
	"novelgate/commands/access"
	"novelgate/internal/httpkit"
	"novelgate/internal/testdb"
)

// TestRateOfQueries asks as fast as it can, by a clock that stands still.
func TestRateOfQueries(t *testing.T) {
	t.Parallel()
	f := newFake()
	var elapsed atomic.Int64
	start := time.Now()
	api := newAPI(f, time.Minute, func() time.Time { return start.Add(time.Duration(elapsed.Load())) })
	router := mux.NewRouter().SkipClean(true)
	api.Register(router)
	handler := httpkit.WithRequestID(router)
	ask := func() reply {
		t.Helper()
		return send(t, handler, http.MethodGet, mePath, "")
	}
	limited := func() {
		t.Helper()
		got := ask()
		if got.status != http.StatusTooManyRequests || got.body["code"] != "rate_limited" ||
			got.header.Get("Retry-After") != "1" {
			t.Errorf("beyond the rate: %+v", got)
		}
		if limit := got.header.Get("RateLimit"); limit != `"posts";r=0;t=0, "novels";r=0;t=0, "queries";r=0;t=10` {
			t.Errorf("RateLimit beyond the rate: %s", limit)
		}
	}
	for i := range 200 {
		if got := ask(); got.status != http.StatusOK {
			t.Fatalf("query %d: %+v", i+1, got)
		}
	}
	limited()
	for _, command := range []struct{ path, body string }{{postPath, postBody}, {novelPath, novelBody}} {
		if got := send(t, handler, http.MethodPost, command.path, command.body); got.status >= http.StatusBadRequest {
			t.Errorf("a command: %+v", got)
		}
	}
	flooder := f.integration.IntegrationID
	f.integration.IntegrationID = uuid.New()
	if got := ask(); got.status != http.StatusOK {
		t.Errorf("another integration: %+v", got)
	}
	f.integration.IntegrationID = flooder
	elapsed.Store(int64(time.Second)) // Retry-After is never early
	for i := range 20 {
		if got := ask(); got.status != http.StatusOK {
			t.Errorf("query %d after a second: %+v", i+1, got)
		}
	}
	limited()
}

// TestRefusalsAreHeldBack lets a caller be refused as fast as it can, by a clock that stands still.
func TestRefusalsAreHeldBack(t *testing.T) {
	t.Parallel()
	f := newFake()
	unknown := access.ErrUnknown
	f.authenticate = func(context.Context) error { return unknown }
	now := time.Now()
	api := newAPI(f, time.Minute, func() time.Time { return now })
	router := mux.NewRouter().SkipClean(true)
	api.Register(router)
	handler := httpkit.WithRequestID(router)
	refused := func(status int) time.Duration {
		t.Helper()
		start := time.Now()
		if got := send(t, handler, http.MethodPost, postPath, postBody); got.status != status {
			t.Errorf("%+v, want %d", got, status)
		}
		return time.Since(start)
	}
	for range 100 {
		refused(http.StatusUnauthorized)
	}
	if took := refused(http.StatusUnauthorized); took < time.Second {
		t.Errorf("the refusal after a hundred took %v, want a second", took)
	}
	unknown = nil
	if got := send(t, handler, http.MethodPost, postPath, postBody); got.status != http.StatusCreated {
		t.Errorf("an integration beside the flood: %+v", got)
	}
	f.integration.Enabled = false
	for range 100 {
		refused(http.StatusForbidden)
	}
	if took := refused(http.StatusForbidden); took < time.Second {
		t.Errorf("the refusal of an integration after a hundred took %v, want a second", took)
	}
}

// stuck is a database that answers nobody until it is released.
type stuck struct {
	commands.Records
	asked    atomic.Int64
	released chan struct{}
}

func (s *stuck) SendBatch(context.Context, *pgx.Batch) pgx.BatchResults {
	s.asked.Add(1)
	<-s.released
	return failedBatch{err: context.DeadlineExceeded}
}

// TestQueriesUnderWay lets one integration ask a database that does not answer.
func TestQueriesUnderWay(t *testing.T) {
	t.Parallel()
	f, db := newFake(), &stuck{released: make(chan struct{})}
	handler := serveRecords(t, f, db)
	var wg sync.WaitGroup
	ask := func() {
		if got := send(t, handler, http.MethodPost, reconcilePath,
			inquiries[2].body); got.status != http.StatusServiceUnavailable {
			t.Errorf("a query whose turn came: %+v", got)
		}
	}
	for range 8 {
		wg.Go(ask)
	}
	testdb.Eventually(t, "eight are under way", func() bool { return db.asked.Load() == 8 })
	if got := send(t, handler, http.MethodPost, reconcilePath,
		inquiries[2].body); got.status != http.StatusTooManyRequests || got.body["code"] != "rate_limited" ||
		got.header.Get("Retry-After") != "1" {
		t.Errorf("the ninth, when its time was up: %+v", got)
	}
	f.integration.IntegrationID = uuid.New() // read when a request is authenticated, which all those have been
	wg.Go(ask)
	testdb.Eventually(t, "another integration asks", func() bool { return db.asked.Load() == 9 })
	close(db.released)
	wg.Wait()
}
