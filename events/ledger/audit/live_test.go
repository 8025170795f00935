package audit_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"novelgate/events/ledger/audit"
)

// TestLiveCutLine: the part of a line before the connection was lost is no event.
func TestLiveCutLine(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"of the stream", "of the connection"} {
		for body, want := range map[string]int{"{}\n{\"id\":": 1, "{}\n{}": 1, "{}\n\n": 1, "{\"id\":": 0, "": 0} {
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, body)
				_ = http.NewResponseController(w).Flush()
				if end == "of the connection" {
					panic(http.ErrAbortHandler)
				}
			}))
			live := &audit.Live{Service: &audit.Service{Client: service.Client(), URL: service.URL + "/ledger"}}
			list, err := live.Events(t.Context(), 0, 3, 3)
			if len(list) != want || (err == nil) != (want > 0) {
				t.Errorf("end %s after %q: %d events and error %v, want %d events", end, body, len(list), err, want)
			}
			live.Close()
			service.Close()
		}
	}
}
