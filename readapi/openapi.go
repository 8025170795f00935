package readapi

import (
	"bytes"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"novelgate/commands/problem"
	"novelgate/docs"
	"novelgate/readapi/answer"
)

// RegisterOpenAPI adds the route of the interface description to router. refuse answers those for whom there is no
// room.
func RegisterOpenAPI(
	router *mux.Router, readers *answer.Readers, refuse func(http.ResponseWriter, *http.Request, *problem.Error),
) {
	router.Handle("/openapi.yaml", readers.Limit(answer.Compress(http.HandlerFunc(openAPI)), refuse)).Methods(
		http.MethodGet, http.MethodHead)
}

// openAPI handles GET /openapi.yaml.
func openAPI(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	w.Header().Set("Cache-Control", "public, max-age=300")
	http.ServeContent(w, r, "openapi.yaml", time.Time{}, bytes.NewReader(docs.OpenAPI))
}
