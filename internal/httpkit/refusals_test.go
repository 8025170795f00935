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

// TestHold: beyond a rate, refusals are held back for a second, but not for a client that has left.
func TestHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &httpkit.Kit{Now: time.Now}
		refused := problem.Unauthorized("no such key")
		left, leave := context.WithCancel(t.Context())
		leave()
		held := func(ctx context.Context) time.Duration {
			begun := time.Now()
			k.Hold(httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil), uuid.Nil, refused)
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
