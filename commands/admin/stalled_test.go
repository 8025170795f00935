package admin_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"novelgate/internal/httpkit"
)

// TestStalledBodies: a body that does not arrive keeps no other member of staff from being answered.
func TestStalledBodies(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.api.Staff = httpkit.NewReaders("staff", 1, 1, time.Minute)
	body, sender := io.Pipe()
	stalled := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/admin/novels", body)
	stalled.Header.Set("Authorization", "Bearer "+d.ada)
	stalled.Header.Set("Content-Type", "application/json")
	stalled.Header.Set("Idempotency-Key", "k")
	answered := make(chan int)
	go func() {
		w := httptest.NewRecorder()
		d.handler.ServeHTTP(w, stalled)
		answered <- w.Code
	}()
	if _, err := io.WriteString(sender, "{"); err != nil { // it is read
		t.Fatal(err)
	}
	if got := d.send(t, d.ada, http.MethodGet, "/api/admin/integrations", "", ""); got.status != http.StatusOK {
		t.Errorf("beside a body that does not arrive: %d %s", got.status, got.text)
	}
	if _, err := io.WriteString(sender, `"novel":"A"}`); err != nil {
		t.Fatal(err)
	}
	if err := sender.Close(); err != nil {
		t.Fatal(err)
	}
	if status := <-answered; status != http.StatusCreated {
		t.Errorf("once it has arrived: %d", status)
	}
}
