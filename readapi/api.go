package readapi

import (
	"bytes"
	"context"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/gorilla/mux"

	"novelgate/docs"
	"novelgate/internal/web"
)

// API serves novels, discussions and comments to the public as JSON, and the interface description, without a key.
// Kit.Problems must have the function Problem of this package.
type API struct {
	*web.Kit

	Reader *Reader
}

// Register adds the routes to router.
func (a *API) Register(router *mux.Router) {
	for path, read := range map[string]func(ctx context.Context, r *http.Request, q *web.Query) (any, error){
		"/api/activity":                 a.activity,
		"/api/novels":                   a.novels,
		"/api/novels/{slug}":            a.novel,
		"/api/novels/{slug}/discussion": a.discussion,
		"/api/posts/{postId}":           a.post,
	} {
		router.Handle(path, a.Public(func(ctx context.Context, h http.Header, r *http.Request) ([]byte, error) {
			h.Set("Content-Type", "application/json")
			parameters, err := web.ReadQuery(r.URL)
			if err != nil {
				return nil, err
			}
			body, err := read(ctx, r, parameters)
			if err != nil {
				return nil, err
			}
			return json.Marshal(body)
		}, nil)).Methods(http.MethodGet, http.MethodHead)
	}
	description := bytes.Replace(docs.OpenAPI, []byte("http://127.0.0.1:8080"), []byte(a.Reader.Addresses.Public()), 1)
	router.Handle("/openapi.yaml", a.Public(func(_ context.Context, h http.Header, _ *http.Request) ([]byte, error) {
		h.Set("Content-Type", "application/yaml")
		h.Set("Cache-Control", "public, max-age=300")
		return description, nil
	}, nil)).Methods(http.MethodGet, http.MethodHead)
}

// activity handles GET /api/activity.
func (a *API) activity(ctx context.Context, _ *http.Request, _ *web.Query) (any, error) {
	return a.Reader.Activity(ctx, a.Now())
}

// novels handles GET /api/novels.
func (a *API) novels(ctx context.Context, _ *http.Request, q *web.Query) (any, error) {
	params, err := ParseCatalogue(q, ByTitle)
	if err != nil {
		return nil, err
	}
	return a.Reader.Novels(ctx, params)
}

// novel handles GET /api/novels/{slug}.
func (a *API) novel(ctx context.Context, r *http.Request, _ *web.Query) (any, error) {
	found, err := a.Reader.Novel(ctx, mux.Vars(r)["slug"])
	if err != nil {
		return nil, err
	}
	chapters, err := a.Reader.Chapters(ctx, found.ID)
	return struct {
		Novel    `json:",inline"`
		Chapters []Chapter `json:"chapters"`
	}{found, chapters}, err
}

// discussion handles GET /api/novels/{slug}/discussion.
func (a *API) discussion(ctx context.Context, r *http.Request, q *web.Query) (any, error) {
	params, err := ParseDiscussion(mux.Vars(r)["slug"], q)
	if err != nil {
		return nil, err
	}
	return a.Reader.Discussion(ctx, params)
}

// post handles GET /api/posts/{postId}.
func (a *API) post(ctx context.Context, r *http.Request, _ *web.Query) (any, error) {
	id, ok := web.ParseID(mux.Vars(r)["postId"])
	if !ok {
		return nil, ErrNotFound
	}
	return a.Reader.Post(ctx, id)
}
