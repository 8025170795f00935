// Package pages serves HTML to readers: the catalogue, novels and their discussions, at the addresses in responses to
// partners.
//
// Text of partners is untrusted: html/template escapes it, <bdi> and dir=auto isolate its direction, and the style
// sheet limits its size. These pages have no scripts, and their Content-Security-Policy forbids them. A script makes the
// API reference, which shows nothing of partners.
package pages

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/gorilla/mux"

	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
	"novelgate/readapi/queries"
)

// Pages serves the pages. The Problems of its Kit must include queries.Problem.
type Pages struct {
	*httpkit.Kit

	Reader    *queries.Reader
	Addresses httpkit.Addresses
}

// Register adds the routes to router.
func (p *Pages) Register(router *mux.Router) {
	for path, handler := range map[string]http.Handler{
		"/":                         p.start(),
		"/docs":                     p.reference(),
		"/novels":                   p.handler(p.catalogue),
		"/novels/{slug}":            p.handler(p.novel),
		"/novels/{slug}/discussion": p.handler(p.discussion),
		"/assets/{name}":            p.Public(http.HandlerFunc(p.asset), p.refuse),
	} {
		router.Handle(path, handler).Methods(http.MethodGet, http.MethodHead)
	}
}

// policy lets a page load its own style sheet and icon, and covers from any https address. It forbids everything else,
// including framing.
const policy = "default-src 'none'; style-src 'self'; img-src 'self' https:; form-action 'self'; base-uri 'none'; " +
	"frame-ancestors 'none'"

func setPolicies(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "strict-origin-when-cross-origin")
}

// query returns the page for a request.
type query func(ctx context.Context, r *http.Request, parameters *httpkit.Query) (*document, error)

// handler serves a page with query parameters.
func (p *Pages) handler(read query) http.Handler {
	return p.page(func(ctx context.Context, r *http.Request) (*document, error) {
		parameters, err := httpkit.ReadQuery(r.URL)
		if err != nil {
			return nil, err //nolint:wrapcheck // already a problem
		}
		return read(ctx, r, parameters)
	})
}

const contentType = "text/html; charset=utf-8"

// page serves a page without query parameters.
func (p *Pages) page(read func(ctx context.Context, r *http.Request) (*document, error)) http.Handler {
	rendered := p.Rendered(contentType, func(ctx context.Context, r *http.Request) (httpkit.Rendering, error) {
		d, err := read(ctx, r)
		return func(w io.Writer) error { return p.render(w, d) }, err
	}, p.refuse)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setPolicies(w.Header())
		rendered.ServeHTTP(w, r)
	})
}

// refuse sends an error page.
func (p *Pages) refuse(w http.ResponseWriter, r *http.Request, err error) {
	refused, requestID := p.Failure(r, err), httpkit.RequestID(r.Context())
	var buffer bytes.Buffer
	if err := p.render(&buffer, p.problem(refused, requestID)); err != nil {
		problem.Write(w, requestID, fmt.Errorf("render error page: %w", err))
		return
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	setPolicies(h)
	if refused.Code.Retryable() {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(refused.Code.Status())
	if r.Method != http.MethodHead {
		_, _ = w.Write(buffer.Bytes()) // the client closed the connection
	}
}
