package pages

import (
	"context"
	"net/http"

	"novelgate/internal/web"
	"novelgate/readapi"
)

// start handles GET / for browsers. A client that does not accept HTML gets a problem body with 404.
func (p *Pages) start() http.Handler {
	page := p.page(p.startPage)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept")
		// Browsers ask for HTML, most other programs for anything; those that ask for JSON only get a problem.
		if r.Header.Get("Accept") != "" && !web.AcceptsByName(r, "text/html") && !web.AcceptsByName(r, "*/*") {
			p.NotFound(w, r)
			return
		}
		p.linkJSON(w.Header(), "/api/activity", nil)
		page.ServeHTTP(w, r)
	})
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

func (p *Pages) startPage(ctx context.Context, _ *http.Request) (*document, error) {
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
		body.Posts = p.Addresses.Start() + "api/integrations/posts"
		body.Now = p.Now().UTC().Truncate(day).Format(machineTime)
	}
	for i := range activity.Latest {
		s := &activity.Latest[i]
		shown := p.remark(s)
		shown.Title, shown.NovelPath = s.Novel.Title, p.Addresses.NovelPath(s.Novel.Slug)
		body.Latest = append(body.Latest, shown)
	}
	for _, d := range activity.Discussed {
		body.Discussed = append(body.Discussed, discussedView{
			d.Novel.Title, lang(d.Novel.Language), p.Addresses.DiscussionPath(d.Novel.Slug), count(d.Posts, "comment"),
		})
	}
	for i := range found.Novels {
		body.Newest = append(body.Newest, p.view(&found.Novels[i]))
	}
	return &document{
		Template: "start", Title: "Novels and discussions", Kind: "website", Canonical: p.Addresses.Start(),
		Description: "Novels of this platform and of its partners, and what readers say about them.", Body: &body,
		Feed: p.Addresses.Base() + "/feed.atom",
	}, nil
}
