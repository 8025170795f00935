package readapi

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/internal/httpkit"
	"novelgate/readapi/queries"
)

// novelBody is a novel with the members of SPEC 2.1 and 2.2.
type novelBody struct {
	NovelID       uuid.UUID `json:"novelId"`
	Slug          string    `json:"slug"`
	URL           string    `json:"url"`
	DiscussionURL string    `json:"discussionUrl"`
	Novel         string    `json:"novel"`
	Author        string    `json:"author"`
	Synopsis      string    `json:"synopsis"`
	CoverURL      string    `json:"coverUrl"`
	Genres        []string  `json:"genres"` // never null
	Language      string    `json:"language"`
	ReadingStatus string    `json:"readingStatus"`
	State         string    `json:"state"`
	Platform      *string   `json:"platform"` // null: the host platform
}

func newNovelBody(a httpkit.Addresses, n *queries.Novel) novelBody {
	return novelBody{
		NovelID: n.ID, Slug: n.Slug, URL: a.Novel(n.Slug), DiscussionURL: a.Discussion(n.Slug), Novel: n.Title,
		Author:   n.Author,
		Synopsis: n.Synopsis, CoverURL: n.CoverURL, Genres: n.Genres, Language: n.Language, ReadingStatus: n.ReadingStatus,
		State: string(n.State), Platform: orNull(n.Platform),
	}
}

// novelPage is one page of a list of novels.
type novelPage struct {
	Items      []novelBody `json:"items"`
	NextCursor *string     `json:"nextCursor"` // null on the last page
}

// novels handles GET /api/novels.
func (a *API) novels(ctx context.Context, _ *http.Request, q *httpkit.Query) (any, error) {
	params, err := queries.ParseCatalogue(q)
	if err != nil {
		return nil, err //nolint:wrapcheck // already a problem
	}
	found, err := a.Reader.Novels(ctx, params)
	if err != nil {
		return nil, err //nolint:wrapcheck // the error names the operation
	}
	page := novelPage{
		Items: make([]novelBody, len(found.Novels)), NextCursor: orNull(queries.CatalogueCursor(found.Next)),
	}
	for i := range found.Novels {
		page.Items[i] = newNovelBody(a.Addresses, &found.Novels[i])
	}
	return page, nil
}

// novelAsOfBody is the state of a novel at a past time.
type novelAsOfBody struct {
	novelBody `json:",inline"`

	AsOf *time.Time `json:"asOf,omitzero"`
}

// novel handles GET /api/novels/{slug}.
func (a *API) novel(ctx context.Context, r *http.Request, q *httpkit.Query) (any, error) {
	slug := mux.Vars(r)["slug"]
	asOf, err := queries.ParseNovel(slug, q)
	if err != nil {
		return nil, err //nolint:wrapcheck // already a problem
	}
	found, err := a.Reader.Novel(ctx, slug, asOf)
	if err != nil {
		return nil, err //nolint:wrapcheck // the error names the operation
	}
	return novelAsOfBody{newNovelBody(a.Addresses, &found), momentOrNull(asOf)}, nil
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func momentOrNull(moment *time.Time) *time.Time {
	if moment == nil {
		return nil
	}
	utc := moment.UTC()
	return &utc
}
