package pages

import (
	"context"
	"net/http"
	"strings"

	"novelgate/readapi/answer"
	"novelgate/readapi/reading"
)

// start handles GET /, for people. A program that does not take pages has no business here, and is told so in its own
// language.
func (p *Pages) start() http.Handler {
	page := p.handler(func(context.Context, *http.Request) (*document, error) {
		return &document{
			Template: "start", Title: "Novels and discussions", Kind: "website", Canonical: p.Addresses.Start(),
			Description: "Novels of this platform and of its partners, and what readers say about them.",
		}, nil
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept")
		if !answer.Accepts(r, "text/html") {
			p.Missing.ServeHTTP(w, r)
			return
		}
		page.ServeHTTP(w, r)
	})
}

// NotFound answers for addresses that no route has: with a page where the others are pages, below /novels/, and else as
// Missing does.
func (p *Pages) NotFound() http.Handler {
	page := p.Readers.Limit(answer.Compress(p.handler(func(context.Context, *http.Request) (*document, error) {
		return nil, reading.ErrNotFound
	})), p.busy)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/novels/") && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			page.ServeHTTP(w, r)
			return
		}
		p.Missing.ServeHTTP(w, r)
	})
}
