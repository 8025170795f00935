package pages

import (
	"context"
	"net/http"
	"strings"

	"novelgate/internal/httpkit"
	"novelgate/readapi/queries"
)

// start handles GET / for browsers. A client that does not accept HTML gets a problem body with 404.
func (p *Pages) start() http.Handler {
	page := p.page(func(context.Context, *http.Request) (*document, error) {
		return &document{
			Template: "start", Title: "Novels and discussions", Kind: "website", Canonical: p.Addresses.Start(),
			Description: "Novels of this platform and of its partners, and what readers say about them.",
		}, nil
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept")
		if !httpkit.Accepts(r, "text/html") {
			p.NotFound(w, r)
			return
		}
		page.ServeHTTP(w, r)
	})
}

// Missing handles unknown addresses: with an error page below /novels/, otherwise with a problem body.
func (p *Pages) Missing() http.Handler {
	page := p.page(func(context.Context, *http.Request) (*document, error) { return nil, queries.ErrNotFound })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/novels/") && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			page.ServeHTTP(w, r)
			return
		}
		p.NotFound(w, r)
	})
}
