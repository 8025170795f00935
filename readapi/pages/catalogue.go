package pages

import (
	"context"
	"net/http"
	"net/url"

	"novelgate/internal/httpkit"
	"novelgate/readapi/queries"
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
	params, err := queries.ParseCatalogue(q)
	if err != nil {
		return nil, err //nolint:wrapcheck // already a problem
	}
	found, err := p.Reader.Novels(ctx, params)
	if err != nil {
		return nil, err //nolint:wrapcheck // the error names the operation
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
		filter.Set("cursor", queries.CatalogueCursor(found.Next))
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
	*queries.Novel

	Path, DiscussionPath string
	Lang, LanguageName   string // of the title
	Status               string
}

func (p *Pages) view(n *queries.Novel) novelView {
	return novelView{
		n, p.Addresses.NovelPath(n.Slug), p.Addresses.DiscussionPath(n.Slug), lang(n.Language), languageName(n.Language),
		statuses[n.ReadingStatus],
	}
}

var statuses = map[string]string{"ongoing": "Ongoing", "completed": "Completed", "hiatus": "On hiatus"}
