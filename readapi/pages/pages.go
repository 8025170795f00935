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
	"log/slog"
	"net/http"
	"time"

	"github.com/gorilla/mux"

	"novelgate/commands/problem"
	"novelgate/readapi/answer"
	"novelgate/readapi/question"
	"novelgate/readapi/reading"
)

// Pages are the routes.
type Pages struct {
	Reader    *reading.Reader
	Addresses answer.Addresses
	Logger    *slog.Logger
	Timeout   time.Duration // within which every request is answered
	// is told about an error that a page shows; returns the id of the request
	Refused func(r *http.Request, p *problem.Error) string
	Missing http.Handler    // answers programs where only people are served
	Readers *answer.Readers // how many are answered at a time; nil: any number

	failures answer.Failures
}

// Register adds the routes to router.
func (p *Pages) Register(router *mux.Router) {
	get := func(path string, handler http.Handler) {
		router.Handle(path, p.Readers.Limit(answer.Compress(handler), p.busy)).Methods(http.MethodGet, http.MethodHead)
	}
	get("/", p.start())
	get("/novels", p.handler(wellFormed(p.catalogue)))
	get("/novels/{slug}", p.handler(wellFormed(p.novel)))
	get("/novels/{slug}/discussion", p.handler(wellFormed(p.discussion)))
	get("/assets/{name}", http.HandlerFunc(p.asset))
}

// policy lets a page load its own style sheet and icon, and covers from anywhere; nothing else, and nothing may frame
// it.
const policy = "default-src 'none'; style-src 'self'; img-src 'self' https:; form-action 'self'; base-uri 'none'; " +
	"frame-ancestors 'none'"

// query answers a request with a page.
type query func(ctx context.Context, r *http.Request) (*document, error)

// wellFormed is a query whose address has parameters, none of which may be passed over.
func wellFormed(answerTo query) query {
	return func(ctx context.Context, r *http.Request) (*document, error) {
		if err := question.WellFormed(r.URL); err != nil {
			return nil, err
		}
		return answerTo(ctx, r)
	}
}

func (p *Pages) handler(answerTo query) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), p.Timeout)
		defer cancel()
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "strict-origin-when-cross-origin")
		buffer, free := answer.Buffer()
		defer free()
		page, err := answerTo(ctx, r)
		if err == nil {
			err = p.Readers.Render(func() error { return p.render(buffer, page) })
		}
		if err != nil {
			p.refuse(w, r, buffer, err)
			return
		}
		answer.Send(w, r, contentType, buffer.Bytes())
	})
}

func (p *Pages) busy(w http.ResponseWriter, r *http.Request, busy *problem.Error) {
	w.Header().Set("Content-Security-Policy", policy)
	p.refuse(w, r, new(bytes.Buffer), busy)
}

const contentType = "text/html; charset=utf-8"

// refuse answers with a page that says what is wrong.
func (p *Pages) refuse(w http.ResponseWriter, r *http.Request, buffer *bytes.Buffer, err error) {
	refused := answer.Problem(err)
	requestID := p.Refused(r, refused)
	p.failures.Log(r, p.Logger, "page", refused, slog.String("requestId", requestID), slog.Any("error", err))
	buffer.Reset()
	if err := p.render(buffer, p.problem(refused, requestID)); err != nil {
		problem.Write(w, requestID, fmt.Errorf("render error page: %w", err))
		return
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if refused.Code.Retryable() {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(refused.Code.Status())
	if r.Method != http.MethodHead {
		_, _ = w.Write(buffer.Bytes()) // a failing connection is the client's affair
	}
}
