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

// readyTimeout is how long /readyz waits for the state of the projections.
const readyTimeout = time.Second

// Health serves the liveness and the readiness of the process.
type Health struct {
	// Probe checks the dependencies of commands and returns the error of each, nil for a healthy one. It must end within
	// the time-out of the operator's readiness check.
	Probe    func() map[string]error
	Draining func() bool // the process is shutting down
	// Projections returns the state of each projection for /readyz. A failed projection does not make the process unready,
	// because commands still work. Nil: not shown.
	Projections func(ctx context.Context) (any, error)
}

// Register adds the health routes to router.
func (h *Health) Register(router *mux.Router) {
	router.HandleFunc("/healthz", h.live).Methods(http.MethodGet, http.MethodHead)
	router.HandleFunc("/readyz", h.ready).Methods(http.MethodGet, http.MethodHead)
}

type healthResponse struct {
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`

	Probes      map[string]string `json:"probes,omitempty"` // failed probes with their errors
	Projections any               `json:"projections,omitempty"`
}

// live handles GET /healthz: the process serves requests.
func (h *Health) live(w http.ResponseWriter, _ *http.Request) {
	writeHealth(w, http.StatusOK, healthResponse{Status: "ok"})
}

// ready handles GET /readyz: all dependencies of commands are healthy, and no shutdown has begun.
func (h *Health) ready(w http.ResponseWriter, r *http.Request) {
	if h.Draining() {
		writeHealth(w, http.StatusServiceUnavailable, healthResponse{Status: "unavailable", Reason: "shutting down"})
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
			healthResponse{Status: "unavailable", Reason: failed[first], Probes: failed})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	response := healthResponse{Status: "ok"}
	if h.Projections != nil {
		list, err := h.Projections(ctx)
		if err != nil {
			list = "unknown: it could not be read"
		}
		response.Projections = list
	}
	writeHealth(w, http.StatusOK, response)
}

func writeHealth(w http.ResponseWriter, status int, response healthResponse) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, response, json.Deterministic(true)) // an error means that the client disconnected
}
