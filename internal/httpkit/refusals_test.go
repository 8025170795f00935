package httpkit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// TestDelayRefusal: refusals beyond the rate are delayed by a second, unless the client has disconnected.
func TestDelayRefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &httpkit.Kit{Now: time.Now}
		refused := problem.Unauthorized("no such key")
		left, leave := context.WithCancel(t.Context())
		leave()
		held := func(ctx context.Context) time.Duration {
			begun := time.Now()
			k.DelayRefusal(httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil), uuid.Nil, refused)
			return time.Since(begun)
		}
		for range 100 {
			if d := held(t.Context()); d != 0 {
				t.Fatalf("within the rate: %v", d)
			}
		}
		if d := held(left); d != 0 {
			t.Errorf("for a client that has left: %v", d)
		}
		if d := held(t.Context()); d != time.Second {
			t.Errorf("beyond the rate: %v", d)
		}
	})
}
