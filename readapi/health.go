// Package readapi serves what can be read over HTTP.
package readapi

import (
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/gorilla/mux"
)

// readyTimeout is how long /readyz waits for the database.
const readyTimeout = time.Second

// Health answers whether the process lives and whether it can do its work.
type Health struct {
	Ping     func(ctx context.Context) error // asks the database
	Draining func() bool                     // the process is shutting down
}

// Register adds the health routes to router.
func (h *Health) Register(router *mux.Router) {
	router.HandleFunc("/healthz", h.live).Methods(http.MethodGet, http.MethodHead)
	router.HandleFunc("/readyz", h.ready).Methods(http.MethodGet, http.MethodHead)
}

type healthAnswer struct {
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
}

// live handles GET /healthz: the process serves requests.
func (h *Health) live(w http.ResponseWriter, _ *http.Request) {
	writeHealth(w, http.StatusOK, healthAnswer{Status: "ok"})
}

// ready handles GET /readyz: the database answers and no shutdown has begun.
func (h *Health) ready(w http.ResponseWriter, r *http.Request) {
	if h.Draining() {
		writeHealth(w, http.StatusServiceUnavailable, healthAnswer{"unavailable", "shutting down"})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	if err := h.Ping(ctx); err != nil {
		writeHealth(w, http.StatusServiceUnavailable, healthAnswer{"unavailable", "the database does not answer"})
		return
	}
	writeHealth(w, http.StatusOK, healthAnswer{Status: "ok"})
}

func writeHealth(w http.ResponseWriter, status int, answer healthAnswer) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, answer) // a failing connection is the client's affair
}
