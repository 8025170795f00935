// Package readapi serves what can be read over HTTP.
package readapi

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/gorilla/mux"
)

// readyTimeout is how long /readyz waits for where the projections stand.
const readyTimeout = time.Second

// Health answers whether the process lives and whether it can do its work.
type Health struct {
	// Probe looks at each thing that commands need of the database, and says what is the matter with it; nil is nothing.
	// It takes no longer than whoever asks for readiness waits.
	Probe    func() map[string]error
	Draining func() bool // the process is shutting down
	// Projections returns where each projection stands, for /readyz to show. None of it makes the process unready:
	// commands are taken all the same. Nil where operators do not look.
	Projections func(ctx context.Context) (any, error)
}

// Register adds the health routes to router.
func (h *Health) Register(router *mux.Router) {
	router.HandleFunc("/healthz", h.live).Methods(http.MethodGet, http.MethodHead)
	router.HandleFunc("/readyz", h.ready).Methods(http.MethodGet, http.MethodHead)
}

type healthAnswer struct {
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`

	Probes      map[string]string `json:"probes,omitempty"` // that have failed, with the reason
	Projections any               `json:"projections,omitempty"`
}

// live handles GET /healthz: the process serves requests.
func (h *Health) live(w http.ResponseWriter, _ *http.Request) {
	writeHealth(w, http.StatusOK, healthAnswer{Status: "ok"})
}

// ready handles GET /readyz: commands get what they need of the database, and no shutdown has begun.
func (h *Health) ready(w http.ResponseWriter, r *http.Request) {
	if h.Draining() {
		writeHealth(w, http.StatusServiceUnavailable, healthAnswer{Status: "unavailable", Reason: "shutting down"})
		return
	}
	failed := map[string]string{}
	for name, err := range h.Probe() {
		if err != nil {
			failed[name] = err.Error()
		}
	}
	if len(failed) > 0 {
		first := slices.Min(slices.Collect(maps.Keys(failed)))
		writeHealth(w, http.StatusServiceUnavailable,
			healthAnswer{Status: "unavailable", Reason: failed[first], Probes: failed})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	answer := healthAnswer{Status: "ok"}
	if h.Projections != nil {
		list, err := h.Projections(ctx)
		if err != nil {
			list = "unknown: the database did not say in time"
		}
		answer.Projections = list
	}
	writeHealth(w, http.StatusOK, answer)
}

func writeHealth(w http.ResponseWriter, status int, answer healthAnswer) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, answer, json.Deterministic(true)) // a failing connection is the client's affair
}
