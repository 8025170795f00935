package readapi

import (
	"bytes"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"novelgate/docs"
	"novelgate/internal/httpkit"
)

// RegisterOpenAPI adds the route of the interface description to router.
func RegisterOpenAPI(router *mux.Router, kit *httpkit.Kit) {
	router.Handle("/openapi.yaml", kit.Public(http.HandlerFunc(openAPI), kit.Refuse)).Methods(http.MethodGet,
		http.MethodHead)
}

// openAPI handles GET /openapi.yaml.
func openAPI(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	w.Header().Set("Cache-Control", "public, max-age=300")
	http.ServeContent(w, r, "openapi.yaml", time.Time{}, bytes.NewReader(docs.OpenAPI))
}
