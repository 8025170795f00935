package pages

import (
	"context"
	"net/http"

	"github.com/gorilla/mux"

	"novelgate/internal/web"
	"novelgate/readapi"
)

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
			chapterName(c.Number), withParameter(body.DiscussionPath, nil, "chapter", c.Number), web.Thousands(c.Posts),
			max(1, 100*c.Posts/most),
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
		Image: p.coverOf(found.CoverURL), Feed: p.Addresses.NovelPath(found.Slug) + "/feed.atom",
		Canonical: p.Addresses.Novel(found.Slug), Body: body,
	}, nil
}
