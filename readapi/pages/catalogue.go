package pages

import (
	"context"
	"net/http"
	"net/url"

	"novelgate/internal/web"
	"novelgate/readapi"
)

// catalogueBody is the body of the list of novels.
type catalogueBody struct {
	Text, Genre string // as requested
	Language    string // as requested
	Filtered    bool
	Hidden      []field // parameters that the search form sends again, without the page size
	Sorts       []choice
	Filters     []choice // current filters, each with the path of the list without it
	Novels      []novelView
	First, Next string // paths of other pages; "" for none
}

// field is a parameter with its value.
type field struct{ Name, Value string }

// choice is a link that changes a list.
type choice struct {
	Name, Path string
	Current    bool
}

// sorts are the values of the parameter sort.
var sorts = []struct{ value, label string }{
	{readapi.ByActivity, "Latest activity"}, {readapi.ByNewest, "Newest"}, {readapi.ByTitle, "Title"},
}

// standardSort is the order when there is no parameter sort. The search for a text is fastest by title.
func standardSort(query url.Values) string {
	if query.Get("q") != "" {
		return readapi.ByTitle
	}
	return readapi.ByActivity
}

// catalogue handles GET /novels.
func (p *Pages) catalogue(ctx context.Context, r *http.Request, q *web.Query) (*document, error) {
	params, err := readapi.ParseCatalogue(q, standardSort(r.URL.Query()))
	if err != nil {
		return nil, err
	}
	found, err := p.Reader.Novels(ctx, params)
	if err != nil {
		return nil, err
	}
	body := catalogueBody{
		Text: params.Text, Genre: params.Genre, Language: params.Language,
		Filtered: params.Filtered(), Novels: make([]novelView, len(found.Novels)),
	}
	for i := range found.Novels {
		body.Novels[i] = p.view(&found.Novels[i])
	}
	path, filter := p.Addresses.Base()+"/novels", url.Values{}
	copyParameters(filter, r.URL.Query(), "sort", "q", "state", "owner", "genre", "language", "limit")
	body.addControls(params, path, filter)
	d := &document{
		Template: "catalogue", Title: "Novels", Kind: "website", Description: "Novels and what readers say about them.",
		Canonical: p.Addresses.Novels(), NoIndex: body.Filtered, Body: &body,
	}
	if params.Text != "" {
		d.Title = "Search: " + params.Text
	}
	if params.After != "" {
		body.First = address(path, filter)
		d.NoIndex = true
	}
	if found.Next != "" {
		body.Next = withParameter(path, filter, "cursor", readapi.CatalogueCursor(params.Sort, found.Next))
	}
	return d, nil
}

// addControls adds what changes the list: the hidden fields of the search form, the orders and the current filters.
// filter has the parameters of the request.
func (b *catalogueBody) addControls(params readapi.CatalogueParams, path string, filter url.Values) {
	for _, name := range []string{"sort", "state", "owner"} {
		if value := filter.Get(name); value != "" {
			b.Hidden = append(b.Hidden, field{name, value})
		}
	}
	for _, sort := range sorts {
		link := withParameter(path, filter, "sort", sort.value)
		b.Sorts = append(b.Sorts, choice{sort.label, link, sort.value == params.Sort})
	}
	owner := params.Owner
	if owner == readapi.Host {
		owner = "Published by this platform"
	}
	for _, f := range []field{
		{"q", params.Text},
		{"state", params.State},
		{"owner", owner},
		{"genre", params.Genre},
		{"language", languageName(params.Language)},
	} {
		if f.Value != "" {
			b.Filters = append(b.Filters, choice{Name: f.Value, Path: withParameter(path, filter, f.Name, "")})
		}
	}
}
