package audit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
	"novelgate/readapi/audit"
)

// slowClient takes a second for everything that it is sent. What happens meanwhile is after's.
type slowClient struct {
	*httptest.ResponseRecorder
	clock *atomic.Int64
	sent  int
	after func()
}

func (s *slowClient) Write(p []byte) (int, error) {
	s.sent++
	s.clock.Add(int64(time.Second))
	s.after()
	return len(p), nil
}

// TestSlowClients: a key that is revoked, or a shutdown, ends a stream before the next part of a page, not when a slow
// client has taken all of it.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		query   string
		ends    func(a *archive, revoked *atomic.Bool)
		aborted bool
	}{
		"revoked":                {"", func(_ *archive, revoked *atomic.Bool) { revoked.Store(true) }, true},
		"revoked while it waits": {"?follow=true", func(_ *archive, revoked *atomic.Bool) { revoked.Store(true) }, true},
		"shutdown":               {"?follow=true", func(a *archive, _ *atomic.Bool) { a.draining.Store(true) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newArchive(t, nil)
			a.fill(t, 450) // one page, which goes out in several parts
			var clock atomic.Int64
			var revoked atomic.Bool
			authenticate := a.api.Authenticate
			a.api.Now = func() time.Time { return time.Now().Add(time.Duration(clock.Load())) }
			a.api.Authenticate = func(ctx context.Context, h http.Header) (audit.Reader, error) {
				if revoked.Load() {
					return audit.Reader{}, problem.Unauthorized("revoked")
				}
				return authenticate(ctx, h)
			}
			router := mux.NewRouter()
			a.api.Register(router)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/events"+c.query, http.NoBody)
			r.Header.Set("Authorization", "Bearer "+a.otto)
			r.Header.Set("Accept", ndjson)
			client := &slowClient{ResponseRecorder: httptest.NewRecorder(), clock: &clock, after: func() { c.ends(a, &revoked) }}
			aborted := func() (aborted bool) {
				defer func() { aborted = recover() == http.ErrAbortHandler }() //nolint:errorlint // it is panicked with as it is
				httpkit.WithRequestID(router).ServeHTTP(client, r)
				return false
			}()
			if client.sent != 1 || aborted != c.aborted {
				t.Errorf("%d parts were sent, aborted: %t", client.sent, aborted)
			}
			rows := a.entriesEnded(t)[0].RowsReturned
			if *rows == 0 || *rows >= 450 {
				t.Errorf("%d rows on record", *rows)
			}
		})
	}
}
