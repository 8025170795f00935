package readapi

import (
	"context"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/gorilla/mux"

	"novelgate/internal/httpkit"
	"novelgate/readapi/queries"
)

// API serves novels, discussions and comments to the public as JSON, without a key. The Problems of its Kit must
// include queries.Problem.
type API struct {
	*httpkit.Kit

	Reader    *queries.Reader
	Addresses httpkit.Addresses
}

// Register adds the routes to router.
func (a *API) Register(router *mux.Router) {
	for path, read := range map[string]query{
		"/api/novels":                   a.novels,
		"/api/novels/{slug}":            a.novel,
		"/api/novels/{slug}/discussion": a.discussion,
		"/api/posts/{postId}":           a.post,
	} {
		router.Handle(path, a.handler(read)).Methods(http.MethodGet, http.MethodHead)
	}
}

// query returns the JSON body of a response.
type query func(ctx context.Context, r *http.Request, parameters *httpkit.Query) (any, error)

func (a *API) handler(read query) http.Handler {
	return a.Rendered("application/json", func(ctx context.Context, r *http.Request) (httpkit.Rendering, error) {
		parameters, err := httpkit.ReadQuery(r.URL)
		if err != nil {
			return nil, err //nolint:wrapcheck // already a problem
		}
		body, err := read(ctx, r, parameters)
		return func(w io.Writer) error { return json.MarshalWrite(w, body) }, err
	}, a.Refuse)
}
