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
	"embed"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strings"

	"github.com/gorilla/mux"

	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
	"novelgate/readapi"
)

// Pages serves the pages. The Problems of its Kit must include readapi.Problem.
type Pages struct {
	*httpkit.Kit

	Reader    *readapi.Reader
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
			return nil, err
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
	page := p.page(func(context.Context, *http.Request) (*document, error) { return nil, readapi.ErrNotFound })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/novels/") && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			page.ServeHTTP(w, r)
			return
		}
		p.NotFound(w, r)
	})
}

//go:embed templates/*.html
var templateFiles embed.FS

// document is the data of a template. Body is specific to the kind of page.
type document struct {
	Template    string // name of the template of the body
	Base        string // path of the public URL, the prefix of links
	Style, Icon string // paths
	Title       string
	Description string // for link previews and search engines
	Canonical   string // "" on pages without a canonical address
	Kind        string // Open Graph type, for link previews
	Image       string // address of the cover; "" for none
	NoIndex     bool   // search engines must not index it
	Body        any
}

// templates has the layout combined with each kind of page.
var templates = parse("start", "catalogue", "novel", "discussion", "problem")

func parse(names ...string) map[string]*template.Template {
	parsed := map[string]*template.Template{}
	for _, name := range names {
		parsed[name] = template.Must(template.New("layout.html").ParseFS(templateFiles, "templates/layout.html",
			"templates/"+name+".html"))
	}
	return parsed
}

// render writes a page.
func (p *Pages) render(w io.Writer, d *document) error {
	d.Title, d.Description = plain(d.Title), plain(d.Description)
	d.Base, d.Style, d.Icon = p.Addresses.Base(), p.assetPath("style.css"), p.assetPath("icon.svg")
	if err := templates[d.Template].Execute(w, d); err != nil {
		return fmt.Errorf("render %s: %w", d.Template, err)
	}
	return nil
}

// plain removes the characters that change the direction of text. It is for places without markup to isolate them, such
// as the title of a window or a link preview.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' {
			return -1
		}
		return r
	}, text)
}

// failure is the body of an error page.
type failure struct {
	Heading, Detail, RequestID string
	Status                     int
}

func (p *Pages) problem(refused *problem.Error, requestID string) *document {
	headings := map[problem.Code]string{
		problem.CodeNotFound: "Not found", problem.CodeGone: "Removed",
		problem.CodeInvalidRequest: "This address is not right",
		problem.CodeUnavailable:    "Back in a moment",
	}
	body := failure{
		Heading: headings[refused.Code], Detail: refused.Detail, RequestID: requestID, Status: refused.Code.Status(),
	}
	if body.Heading == "" {
		body.Heading = "Something went wrong"
	}
	if refused.Code == problem.CodeUnavailable {
		body.Detail = "The service cannot answer now. Please try again."
	}
	return &document{Template: "problem", Title: body.Heading, NoIndex: true, Body: body}
}
