package pages

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"unicode/utf8"

	"github.com/gorilla/mux"
	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"novelgate/internal/httpkit"
	"novelgate/readapi"
)

// catalogueBody is the body of the list of novels.
type catalogueBody struct {
	Text, State, Owner string // as requested
	Filtered           bool
	Novels             []novelView
	First, Next        string // paths of other pages; "" for none
}

// catalogue handles GET /novels.
func (p *Pages) catalogue(ctx context.Context, r *http.Request, q *httpkit.Query) (*document, error) {
	params, err := readapi.ParseCatalogue(q)
	if err != nil {
		return nil, err
	}
	found, err := p.Reader.Novels(ctx, params)
	if err != nil {
		return nil, err
	}
	body := catalogueBody{
		Text: params.Text, State: params.State, Owner: params.Owner, Novels: make([]novelView, len(found.Novels)),
	}
	for i := range found.Novels {
		body.Novels[i] = p.view(&found.Novels[i])
	}
	filter := url.Values{}
	keep(filter, r.URL.Query(), "q", "state", "owner", "limit")
	body.Filtered = params.Text != "" || params.State != "" || params.Owner != ""
	d := &document{
		Template: "catalogue", Title: "Novels", Kind: "website", Description: "Novels and what readers say about them.",
		Canonical: p.Addresses.Novels(), NoIndex: body.Filtered, Body: &body,
	}
	if params.Text != "" {
		d.Title = "Search: " + params.Text
	}
	path := p.Addresses.Base() + "/novels"
	if params.After != "" {
		body.First = address(path, filter)
		d.NoIndex = true
	}
	if found.Next != "" {
		filter.Set("cursor", readapi.CatalogueCursor(found.Next))
		body.Next = address(path, filter)
	}
	return d, nil
}

// keep copies the named parameters that are present.
func keep(to, from url.Values, names ...string) {
	for _, name := range names {
		if value := from.Get(name); value != "" {
			to.Set(name, value)
		}
	}
}

func address(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// novelView is a novel for a template.
type novelView struct {
	*readapi.Novel

	Path, DiscussionPath string
	Lang, LanguageName   string // of the title
	Status               string
}

func (p *Pages) view(n *readapi.Novel) novelView {
	return novelView{
		n, p.Addresses.NovelPath(n.Slug), p.Addresses.DiscussionPath(n.Slug), lang(n.Language), languageName(n.Language),
		statuses[n.ReadingStatus],
	}
}

var statuses = map[string]string{"ongoing": "Ongoing", "completed": "Completed", "hiatus": "On hiatus"}

// novelBody is the body of the page of a novel.
type novelBody struct {
	novelView

	AsOf *moment
}

// novel handles GET /novels/{slug}.
func (p *Pages) novel(ctx context.Context, r *http.Request, q *httpkit.Query) (*document, error) {
	slug := mux.Vars(r)["slug"]
	asOf, err := readapi.ParseNovel(slug, q)
	if err != nil {
		return nil, err
	}
	found, err := p.Reader.Novel(ctx, slug, asOf)
	if err != nil {
		return nil, err
	}
	body := novelBody{novelView: p.view(&found), AsOf: exactMoment(asOf)}
	if asOf != nil {
		body.DiscussionPath += "?" + asOfQuery(*asOf)
	}
	return &document{
		Template: "novel", Title: found.Title, Kind: "book", Description: excerpt(found.Synopsis), Image: found.CoverURL,
		Canonical: p.Addresses.Novel(found.Slug), NoIndex: asOf != nil, Body: body,
	}, nil
}

// lang returns the lang attribute for text in the original language: a canonical tag (BCP 47) such as en for eng, or ""
// for an unknown language. A partner may use any text as the name of a language.
func lang(original string) string {
	tag, err := language.Parse(original)
	if err != nil || tag == language.Und {
		return ""
	}
	return tag.String()
}

// languageName returns the English name of the original language if it is a language tag (English for en), otherwise
// the partner's text.
func languageName(original string) string {
	tag, err := language.Parse(original)
	if err != nil || tag == language.Und {
		return original
	}
	return cmp.Or(display.English.Tags().Name(tag), original)
}

// excerptLength is the length of the text in a link preview, in characters.
const excerptLength = 200

// excerpt returns the beginning of a text.
func excerpt(text string) string {
	n := 0
	for i := range text {
		if n == excerptLength {
			return text[:i] + "…"
		}
		n++
	}
	if !utf8.ValidString(text) {
		return ""
	}
	return text
}
