// Package pages serves readers with HTML: the catalogue, novels and their discussions, at the addresses that the
// commands return.
//
// What partners send is text: html/template escapes it, <bdi> and dir=auto keep its directions to itself, and the style
// sheet keeps its sizes. Pages hold no script, and their Content-Security-Policy allows none.
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

// Pages are the routes. queries.Problem belongs to the Problems of its Kit.
type Pages struct {
	*httpkit.Kit

	Reader    *queries.Reader
	Addresses httpkit.Addresses
}

// Register adds the routes to router.
func (p *Pages) Register(router *mux.Router) {
	for path, handler := range map[string]http.Handler{
		"/":                         p.start(),
		"/novels":                   p.handler(p.catalogue),
		"/novels/{slug}":            p.handler(p.novel),
		"/novels/{slug}/discussion": p.handler(p.discussion),
		"/assets/{name}":            p.Public(http.HandlerFunc(p.asset), p.refuse),
	} {
		router.Handle(path, handler).Methods(http.MethodGet, http.MethodHead)
	}
}

// policy lets a page load its own style sheet and icon, and covers from anywhere; nothing else, and nothing may frame
// it.
const policy = "default-src 'none'; style-src 'self'; img-src 'self' https:; form-action 'self'; base-uri 'none'; " +
	"frame-ancestors 'none'"

func setPolicies(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "strict-origin-when-cross-origin")
}

// query answers a request with a page.
type query func(ctx context.Context, r *http.Request, parameters *httpkit.Query) (*document, error)

// handler serves a page whose address has parameters.
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

// page serves a page.
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

// refuse answers with a page that says what is wrong.
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
		_, _ = w.Write(buffer.Bytes()) // a failing connection is the client's affair
	}
}
