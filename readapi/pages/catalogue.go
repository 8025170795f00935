package pages

import (
	"context"
	"net/http"
	"net/url"

	"github.com/gorilla/mux"

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
	path, filter := p.Reader.Addresses.Base()+"/novels", url.Values{}
	copyParameters(filter, r.URL.Query(), "sort", "q", "state", "owner", "genre", "language", "limit")
	body.addControls(params, path, filter)
	d := &document{
		Template: "catalogue", Title: "Novels", Kind: "website", Description: "Novels and what readers say about them.",
		Canonical: p.Reader.Addresses.Novels(), NoIndex: body.Filtered, Body: &body,
	}
	if params.Text != "" {
		d.Title = "Search: " + params.Text
	}
	if params.Cursor != "" {
		body.First = address(path, filter)
		d.NoIndex = true
	}
	if found.Next != "" {
		body.Next = withParameter(path, filter, "cursor", string(found.Next))
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

// novelBody is the body of the page of a novel.
type novelBody struct {
	novelView

	Chapters     []bar
	MoreChapters bool
	Latest       []remark
}

// bar is a chapter in the bar chart of a novel.
type bar struct {
	Name, Path, Count string
	Percent           int // of the most discussed chapter
}

// newestComments is the number of comments on the page of a novel.
const newestComments = 3

// novel handles GET /novels/{slug}.
func (p *Pages) novel(ctx context.Context, r *http.Request, _ *web.Query) (*document, error) {
	found, err := p.Reader.Novel(ctx, mux.Vars(r)["slug"])
	if err != nil {
		return nil, err
	}
	body := novelBody{novelView: p.view(&found)}
	body.Cover.Size = "large"
	chapters, err := p.Reader.Chapters(ctx, body.ID)
	if err != nil {
		return nil, err
	}
	most := 1
	for _, c := range chapters {
		most = max(most, c.Posts)
	}
	for _, c := range chapters {
		body.Chapters = append(body.Chapters, bar{
			chapterName(string(c.Number)), withParameter(body.DiscussionPath, nil, "chapter", string(c.Number)),
			web.Thousands(c.Posts), max(1, 100*c.Posts/most),
		})
	}
	body.MoreChapters = len(chapters) >= readapi.ChaptersShown
	latest, err := p.Reader.LatestOn(ctx, body.ID, newestComments)
	if err != nil {
		return nil, err
	}
	for i := range latest {
		body.Latest = append(body.Latest, p.remark(&latest[i]))
	}
	return &document{
		Template: "novel", Title: found.Title, Kind: "book", Description: excerpt(found.Synopsis),
		Image: p.coverOf(found.CoverURL), Feed: p.Reader.Addresses.NovelPath(found.Slug) + "/feed.atom",
		Canonical: p.Reader.Addresses.Novel(found.Slug), Body: body,
	}, nil
}

// startBody is the body of the start page.
type startBody struct {
	Empty      bool   // there are no novels
	Posts, Now string // address of the route for comments, and a time, for an example of a first request
	Latest     []remark
	Discussed  []discussedView
	Newest     []novelView
}

// discussedView is a novel with the number of its comments in the last seven days.
type discussedView struct{ Title, Lang, Path, Count string }

// newestNovels is the number of novels on the start page.
const newestNovels = 8

// start handles GET /.
func (p *Pages) start(ctx context.Context, h http.Header, _ *http.Request) (*document, error) {
	p.linkJSON(h, "/api/activity", nil)
	activity, err := p.Reader.Activity(ctx, p.Now())
	if err != nil {
		return nil, err
	}
	found, err := p.Reader.Novels(ctx, readapi.CatalogueParams{Sort: readapi.ByNewest, Limit: newestNovels})
	if err != nil {
		return nil, err
	}
	body := startBody{Empty: len(found.Novels) == 0}
	if body.Empty {
		body.Posts = p.Reader.Addresses.Start() + "api/integrations/posts"
		body.Now = p.Now().UTC().Truncate(day).Format(machineTime)
	}
	for i := range activity.Latest {
		s := &activity.Latest[i]
		shown := p.remark(s)
		shown.Title, shown.NovelPath = s.Novel.Title, p.Reader.Addresses.NovelPath(s.Novel.Slug)
		body.Latest = append(body.Latest, shown)
	}
	for _, d := range activity.Discussed {
		body.Discussed = append(body.Discussed, discussedView{
			d.Title, lang(d.Language), p.Reader.Addresses.DiscussionPath(d.Slug), count(d.Posts, "comment"),
		})
	}
	for i := range found.Novels {
		body.Newest = append(body.Newest, p.view(&found.Novels[i]))
	}
	return &document{
		Template: "start", Title: "Novels and discussions", Kind: "website", Canonical: p.Reader.Addresses.Start(),
		Description: "Novels of this platform and of its partners, and what readers say about them.", Body: &body,
		Feed: p.Reader.Addresses.Base() + "/feed.atom",
	}, nil
}
