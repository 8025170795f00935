// Package pages serves HTML to readers: the catalogue, novels and their discussions. Responses to partners contain the
// addresses of these pages.
//
// Text of partners is untrusted: html/template escapes it, <bdi> and dir=auto isolate its direction, and the style
// sheet limits its size. These pages run no scripts, and their Content-Security-Policy forbids them. Only the API
// reference uses a script, and it shows no text of partners.
package pages

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/gorilla/mux"

	"novelgate/internal/problem"
	"novelgate/internal/title"
	"novelgate/internal/web"
	"novelgate/readapi"
)

// Pages serves the pages. The Problems of its Kit must include readapi.Problem.
type Pages struct {
	*web.Kit

	Reader *readapi.Reader
	Site   Site
}

// Site has the operator's settings of the pages.
type Site struct {
	Name           string // of the platform; "" for Novelgate
	Logo           *Logo  // in the header, in place of the name; nil for none
	Imprint, Terms string // addresses; "" for none
	NoCovers       bool   // show the first letter of the title in place of covers, which are on hosts of partners
	Sandbox        bool   // a banner says so, and search engines are told to ignore all pages
}

// Register adds the routes to router.
func (p *Pages) Register(router *mux.Router) {
	for path, read := range map[string]readFunc{
		"/":                        p.page(p.start),
		"/docs":                    p.reference(),
		"/docs/{file}":             p.download(),
		"/feed.atom":               xmlOf(atomType, p.latestFeed),
		"/novels/{slug}/feed.atom": xmlOf(atomType, p.novelFeed),
		"/sitemap.xml":             xmlOf(xmlType, p.sitemaps),
		"/sitemaps/{part}":         xmlOf(xmlType, p.sitemap),
		"/robots.txt":              p.robots,
		"/assets/{name}":           p.asset,
	} {
		router.Handle(path, p.Public(read, p.refuse)).Methods(http.MethodGet, http.MethodHead)
	}
	for path, read := range map[string]func(context.Context, *http.Request, *web.Query) (*document, error){
		"/novels":                   p.catalogue,
		"/novels/{slug}":            p.novel,
		"/novels/{slug}/discussion": p.discussion,
	} {
		router.Handle(path, p.Public(p.page(func(ctx context.Context, h http.Header, r *http.Request) (*document, error) {
			query := r.URL.Query()
			// The JSON form has another default order.
			if r.URL.Path == "/novels" && !query.Has("sort") {
				query.Set("sort", standardSort(query))
			}
			p.linkJSON(h, "/api"+r.URL.Path, query)
			parameters, err := web.ReadQuery(r.URL)
			if err != nil {
				return nil, err
			}
			return read(ctx, r, parameters)
		}), p.refuse)).Methods(http.MethodGet, http.MethodHead)
	}
}

// readFunc returns the body of an answer, as web.Kit.Public takes it.
type readFunc = func(ctx context.Context, h http.Header, r *http.Request) ([]byte, error)

// setPolicies lets a page load its own style sheet and pictures, and covers from any https address. It forbids
// everything else, including framing.
func (p *Pages) setPolicies(h http.Header) {
	pictures := "'self' https:"
	if p.Site.NoCovers {
		pictures = "'self'"
	}
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src "+pictures+"; form-action 'self'; "+
		"base-uri 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "strict-origin-when-cross-origin")
}

// linkJSON adds a link to the JSON form of a page (RFC 8288).
func (p *Pages) linkJSON(h http.Header, path string, query url.Values) {
	target := url.URL{Path: path, RawQuery: query.Encode()}
	h.Add("Link", "<"+p.Reader.Addresses.Base()+target.String()+`>; rel="alternate"; type="application/json"`)
}

const htmlType = "text/html; charset=utf-8"

// page renders the page that read returns.
func (p *Pages) page(read func(context.Context, http.Header, *http.Request) (*document, error)) readFunc {
	return func(ctx context.Context, h http.Header, r *http.Request) ([]byte, error) {
		p.setPolicies(h)
		h.Set("Content-Type", htmlType)
		d, err := read(ctx, h, r)
		if err != nil {
			return nil, p.addNear(ctx, r, err)
		}
		return p.render(d)
	}
}

// missing is an error at an address without a page, with novels to show in its place.
type missing struct {
	error

	words  string // of the address of a novel
	novels []novelView
	newest bool // the novels have none of the words
}

func (m *missing) Unwrap() error { return m.error }

// addNear adds to the error of an address without a page the novels with the words of the address, or else with the
// longest of them, or else the newest novels. It returns any other error unchanged.
func (p *Pages) addNear(ctx context.Context, r *http.Request, err error) error {
	if !errors.Is(err, readapi.ErrNotFound) && !errors.Is(err, readapi.ErrGone) {
		return err
	}
	const shown, examined = 4, 1000
	slug, _ := strings.CutPrefix(r.URL.Path, "/novels/")
	if slug == r.URL.Path {
		slug = ""
	}
	slug, _, _ = strings.Cut(slug, "/")
	words := strings.FieldsFunc(slug, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	m := &missing{error: err, words: title.Begin(strings.Join(words, " "), title.MaxLen)}
	longest := ""
	for _, word := range words {
		if len(word) > len(longest) {
			longest = word
		}
	}
	for _, text := range []string{m.words, longest, ""} {
		params := readapi.CatalogueParams{Sort: readapi.ByTitle, Text: text, Limit: shown, MaxExamined: examined}
		if m.newest = text == ""; m.newest {
			params.Sort = readapi.ByNewest
		}
		found, err := p.Reader.Novels(ctx, params)
		if err != nil {
			return m // with an error page that has no novels
		}
		for i := range found.Novels {
			m.novels = append(m.novels, p.view(&found.Novels[i]))
		}
		if len(m.novels) > 0 {
			break
		}
	}
	return m
}

// refuse sends an error page.
func (p *Pages) refuse(w http.ResponseWriter, r *http.Request, err error) {
	refused, requestID := p.Report(r, err), web.RequestID(r.Context())
	heading := cmp.Or(map[problem.Code]string{
		problem.CodeNotFound: "Not found", problem.CodeGone: "Removed",
		problem.CodeInvalidRequest: "This address is not right",
		problem.CodeUnavailable:    "Back in a moment",
	}[refused.Code], "Something went wrong")
	detail := refused.Detail
	if strings.Contains(detail, "Retry-After") {
		detail = "The service cannot answer now. Please try again."
	}
	near := new(missing)
	errors.As(err, &near)
	body, err := p.render(&document{
		Template: "problem", Title: heading, NoIndex: true, Search: near.words, Body: map[string]any{
			"Heading": heading, "Detail": detail, "RequestID": requestID, "Status": refused.Code.Status(),
			"Novels": near.novels, "Newest": near.newest,
		},
	})
	if err != nil {
		problem.Write(w, requestID, fmt.Errorf("render error page: %w", err))
		return
	}
	h := w.Header()
	h.Set("Content-Type", htmlType)
	h.Set("Cache-Control", "no-store")
	h.Del("Link")
	p.setPolicies(h)
	if refused.Code.Retryable() {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(refused.Code.Status())
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // an error means that the client disconnected
	}
}

// Missing handles unknown addresses. It sends an error page below /novels/ and to browsers, otherwise a problem body.
func (p *Pages) Missing() http.Handler {
	page := p.Public(func(ctx context.Context, _ http.Header, r *http.Request) ([]byte, error) {
		return nil, p.addNear(ctx, r, readapi.ErrNotFound)
	}, p.refuse)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isRead := r.Method == http.MethodGet || r.Method == http.MethodHead
		switch {
		case strings.HasPrefix(r.URL.Path, "/api/") && !web.HasOddSeparator(r):
			p.Fail(w, r, problem.ErrNotFound.WithDetail(
				"There is nothing at this address. The interface is described at "+p.Reader.Addresses.Public()+"/docs"))
		case isRead && (strings.HasPrefix(r.URL.Path, "/novels/") || web.AcceptsByName(r, "text/html")):
			page.ServeHTTP(w, r)
		default:
			p.NotFound(w, r)
		}
	})
}

//go:embed templates/*.html
var templateFiles embed.FS

// document is the data of a template. Body is specific to the kind of page.
type document struct {
	Template    string // name of the template of the body
	Base        string // path of the public URL, the prefix of links
	Style, Icon string // paths
	Logo        string // path; "" for none
	Title       string
	Description string // for link previews and search engines
	Canonical   string // "" on pages without a canonical address
	Kind        string // Open Graph type, for link previews
	Image       string // address of the picture for link previews; "" for that of the platform
	Feed        string // path of the Atom feed; "" for none
	NoIndex     bool   // search engines must not index it
	Search      string // text in the search box
	Site        Site
	Body        any
}

// templates has the layout combined with each kind of page, by the name of its template.
var templates = func() map[string]*template.Template {
	parsed := map[string]*template.Template{}
	for _, name := range []string{"start", "catalogue", "novel", "discussion", "problem"} {
		parsed[name] = template.Must(template.New("layout.html").ParseFS(templateFiles, "templates/layout.html",
			"templates/"+name+".html"))
	}
	return parsed
}()

// render returns a page.
func (p *Pages) render(d *document) ([]byte, error) {
	d.Title, d.Description = WithoutBidi(d.Title), WithoutBidi(d.Description)
	d.Site = p.Site
	d.Site.Name = p.siteName()
	d.NoIndex = d.NoIndex || p.Site.Sandbox
	d.Base, d.Style, d.Icon = p.Reader.Addresses.Base(), p.assetPath("style.css"), p.assetPath("icon.svg")
	if p.Site.Logo != nil {
		d.Logo = d.Base + "/assets/" + p.Site.Logo.asset.name
	}
	if d.Image == "" {
		d.Image = p.Reader.Addresses.Public() + strings.TrimPrefix(cmp.Or(d.Logo, d.Icon), d.Base)
	}
	var page bytes.Buffer
	if err := templates[d.Template].Execute(&page, d); err != nil {
		return nil, fmt.Errorf("render %s: %w", d.Template, err)
	}
	return WithoutControls(page.Bytes()), nil
}

func (p *Pages) siteName() string { return cmp.Or(p.Site.Name, "Novelgate") }
