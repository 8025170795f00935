package pages

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"novelgate/internal/problem"
)

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
