package httpkit_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"

	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// stalled is a body that stalls after a beginning, until it is closed.
type stalled struct {
	beginning io.Reader
	closed    chan struct{}
}

func (s *stalled) Read(p []byte) (int, error) {
	if n, err := s.beginning.Read(p); err == nil {
		return n, nil
	}
	<-s.closed
	return 0, io.ErrUnexpectedEOF
}

func (*stalled) Close() error { return nil }

// stall sends the beginning of a body, and returns the result of ReadJSON while it waits: nil, or the code of a
// refusal.
func stall(
	t *testing.T, kit *httpkit.Kit, caller uuid.UUID, arrive, length int, closed chan struct{}, all *sync.WaitGroup,
) problem.Code {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
	r.Header.Set("Content-Type", "application/json")
	r.Body, r.ContentLength = &stalled{bytes.NewReader(make([]byte, arrive)), closed}, int64(length)
	var code problem.Code
	all.Go(func() {
		_, err := kit.ReadJSON(httptest.NewRecorder(), r, caller, int64(length))
		refused, _ := errors.AsType[*problem.Error](err)
		code = refused.Code
	})
	synctest.Wait()
	return code
}

// TestStalledBodies: a caller gets a part of the budget, however few bytes of its bodies arrive. Many callers together
// leave some for the next one, and a refusal tells it that others use the rest.
func TestStalledBodies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kit := &httpkit.Kit{}
		for _, c := range []struct{ callers, arrive, length, least, most int }{
			{1, 0, 32 << 10, 256, 1000},
			{1, 31 << 10, 32 << 10, 256, 500},
			{1, 500 << 10, 512 << 10, 8, 30},
			{300, 500 << 10, 512 << 10, 8, 128 + 300},
			{300, 0, 32 << 10, 300 * 8, 4096 + 300*8},
		} {
			closed, all := make(chan struct{}), new(sync.WaitGroup)
			awaited := 0
			for range c.callers {
				caller := uuid.New()
				code := stall(t, kit, caller, c.arrive, c.length, closed, all)
				for ; code == "" && awaited <= 2*c.most; code = stall(t, kit, caller, c.arrive, c.length, closed, all) {
					awaited++
				}
				if c.callers == 1 && code != problem.CodeRateLimited || code == "" {
					t.Errorf("%+v: refused with %q", c, code)
				}
			}
			if awaited < c.least || awaited > c.most {
				t.Errorf("%+v: %d bodies are awaited", c, awaited)
			}
			other := uuid.New()
			for range 4 {
				if code := stall(t, kit, other, 500, 1000, closed, all); code != "" {
					t.Errorf("%+v: a comment of another caller is refused with %q", c, code)
				}
			}
			if c.callers == 300 && c.arrive > 0 {
				if code := stall(t, kit, other, 500<<10, 512<<10, closed, all); code != problem.CodeUnavailable {
					t.Errorf("a large body beside those of %d others: %q", c.callers, code)
				}
			}
			close(closed) // which releases everything
			all.Wait()
		}
	})
}

// TestBodiesOfAllSizes arrive unchanged, with and without a length, and release their memory.
func TestBodiesOfAllSizes(t *testing.T) {
	t.Parallel()
	kit, caller := &httpkit.Kit{}, uuid.New()
	const limit = 512 << 10
	read := func(sent string, known bool) ([]byte, error) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(sent))
		r.Header.Set("Content-Type", "application/json")
		if !known {
			r.ContentLength = -1
		}
		return kit.ReadJSON(httptest.NewRecorder(), r, caller, limit)
	}
	for range 60 {
		for _, size := range []int{0, 1, 4095, 4096, 4097, 16 << 10, 16<<10 + 1, limit - 1, limit} {
			for _, known := range []bool{true, false} {
				sent := strings.Repeat("x", size)
				body, err := read(sent, known)
				if err != nil || string(body) != sent {
					t.Fatalf("%d bytes, known: %t: %d, %v", size, known, len(body), err)
				}
				kit.ReleaseBody(caller, body)
			}
		}
	}
	for _, known := range []bool{true, false} {
		_, err := read(strings.Repeat("x", limit+1), known)
		if refused, ok := errors.AsType[*problem.Error](err); !ok || refused.Code != problem.CodePayloadTooLarge {
			t.Errorf("a byte too many, known: %t: %v", known, err)
		}
	}
}
