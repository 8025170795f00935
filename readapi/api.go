package readapi

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/docs"
	"novelgate/internal/web"
)

// API serves novels, discussions and comments to the public as JSON, without a key. Kit.Problems must have the function
// Problem of this package.
type API struct {
	*web.Kit

	Reader    *Reader
	Addresses web.Addresses
}

// Register adds the routes to router.
func (a *API) Register(router *mux.Router) {
	for path, read := range map[string]query{
		"/api/activity":                 a.activity,
		"/api/novels":                   a.novels,
		"/api/novels/{slug}":            a.novel,
		"/api/novels/{slug}/discussion": a.discussion,
		"/api/posts/{postId}":           a.post,
	} {
		router.Handle(path, a.handler(read)).Methods(http.MethodGet, http.MethodHead)
	}
}

// query returns the JSON body of a response.
type query func(ctx context.Context, r *http.Request, parameters *web.Query) (any, error)

func (a *API) handler(read query) http.Handler {
	return a.Rendered("application/json", func(ctx context.Context, r *http.Request) (web.RenderFunc, error) {
		parameters, err := web.ReadQuery(r.URL)
		if err != nil {
			return nil, err
		}
		body, err := read(ctx, r, parameters)
		return func(w io.Writer) error { return json.MarshalWrite(w, body) }, err
	}, a.Refuse)
}

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

	Comments      int        `json:"comments"`      // also replies, hidden and erased ones
	LastCommentAt *time.Time `json:"lastCommentAt"` // null without comments
}

func newNovelBody(a web.Addresses, n *Novel) novelBody {
	return novelBody{
		NovelID: n.ID, Slug: n.Slug, URL: a.Novel(n.Slug), DiscussionURL: a.Discussion(n.Slug), Novel: n.Title,
		Author: n.Author, Synopsis: n.Synopsis, CoverURL: n.CoverURL, Genres: n.Genres, Language: n.Language,
		ReadingStatus: n.ReadingStatus, State: string(n.State), Platform: orNull(n.Platform), Comments: n.Posts,
		LastCommentAt: momentOrNull(n.LastPost),
	}
}

// novels handles GET /api/novels.
func (a *API) novels(ctx context.Context, _ *http.Request, q *web.Query) (any, error) {
	params, err := ParseCatalogue(q, ByTitle)
	if err != nil {
		return nil, err
	}
	found, err := a.Reader.Novels(ctx, params)
	if err != nil {
		return nil, err
	}
	page := web.Page[novelBody]{
		Items: make([]novelBody, len(found.Novels)), NextCursor: orNull(CatalogueCursor(params.Sort, found.Next)),
	}
	for i := range found.Novels {
		page.Items[i] = newNovelBody(a.Addresses, &found.Novels[i])
	}
	return page, nil
}

type novelAndChaptersBody struct {
	novelBody `json:",inline"`

	Chapters []chapterBody `json:"chapters"` // never null
}

// chapterBody is a chapter with the number of its comments.
type chapterBody struct {
	ChapterNumber jsontext.Value `json:"chapterNumber"`
	Comments      int            `json:"comments"`
}

// novel handles GET /api/novels/{slug}.
func (a *API) novel(ctx context.Context, r *http.Request, _ *web.Query) (any, error) {
	found, err := a.Reader.Novel(ctx, mux.Vars(r)["slug"])
	if err != nil {
		return nil, err
	}
	body := novelAndChaptersBody{newNovelBody(a.Addresses, &found), []chapterBody{}}
	chapters, err := a.Reader.Chapters(ctx, found.ID)
	if err != nil {
		return nil, err
	}
	for _, c := range chapters {
		body.Chapters = append(body.Chapters, chapterBody{jsontext.Value(c.Number), c.Posts})
	}
	return body, nil
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
	return new(moment.UTC())
}

// activityBody is the latest activity on the whole platform.
type activityBody struct {
	Latest    []postOnNovelBody `json:"latest"`
	Discussed []discussedBody   `json:"discussed"`
}

// discussedBody is a novel with the number of its comments in the last seven days.
type discussedBody struct {
	headingBody `json:",inline"`

	Comments int `json:"comments"`
}

// activity handles GET /api/activity.
func (a *API) activity(ctx context.Context, _ *http.Request, _ *web.Query) (any, error) {
	found, err := a.Reader.Activity(ctx, a.Now())
	if err != nil {
		return nil, err
	}
	body := activityBody{make([]postOnNovelBody, len(found.Latest)), make([]discussedBody, len(found.Discussed))}
	for i := range found.Latest {
		body.Latest[i] = newPostOnNovelBody(a.Addresses, &found.Latest[i])
	}
	for i := range found.Discussed {
		d := &found.Discussed[i]
		body.Discussed[i] = discussedBody{newHeadingBody(a.Addresses, &d.Novel), d.Posts}
	}
	return body, nil
}

// discussionBody is a page of a discussion.
type discussionBody struct {
	Novel          headingBody    `json:"novel"`
	ThreadID       uuid.NullUUID  `json:"threadId"` // null without comments
	Items          []topLevelBody `json:"items"`
	PreviousCursor *string        `json:"previousCursor"`
	NextCursor     *string        `json:"nextCursor"`
	Counts         countsBody     `json:"counts"`
}

// countsBody has the numbers of comments in a discussion, or on a chapter.
type countsBody struct {
	Comments int           `json:"comments"` // top-level
	Replies  int           `json:"replies"`
	LastPost uuid.NullUUID `json:"lastPostId"`
}

// topLevelBody is a top-level comment with some of its replies.
type topLevelBody struct {
	postBody `json:",inline"`

	Replies       []postBody `json:"replies"`
	RepliesCursor *string    `json:"repliesCursor"` // of the next replies, for the parameter under; null if there are none
}

// discussion handles GET /api/novels/{slug}/discussion.
func (a *API) discussion(ctx context.Context, r *http.Request, q *web.Query) (any, error) {
	params, err := ParseDiscussion(mux.Vars(r)["slug"], q)
	if err != nil {
		return nil, err
	}
	page, err := a.Reader.Discussion(ctx, params)
	if err != nil {
		return nil, err
	}
	return newDiscussionBody(a.Addresses, page), nil
}

func newDiscussionBody(a web.Addresses, page *Page) discussionBody {
	body := discussionBody{
		Novel: newHeadingBody(a, &page.Novel), ThreadID: page.ThreadID,
		Items:          make([]topLevelBody, len(page.TopLevelComments)),
		PreviousCursor: orNull(page.Previous), NextCursor: orNull(page.Next),
		Counts: countsBody{page.Posts - page.Replies, page.Replies, page.LastPost},
	}
	for i := range page.TopLevelComments {
		t := &page.TopLevelComments[i]
		item := topLevelBody{
			postBody: newPostBody(a, page.Novel.Slug, &t.Post), Replies: make([]postBody, len(t.Replies)),
			RepliesCursor: orNull(t.RepliesCursor),
		}
		for j := range t.Replies {
			item.Replies[j] = newPostBody(a, page.Novel.Slug, &t.Replies[j])
		}
		body.Items[i] = item
	}
	return body
}

// postBody is a comment.
type postBody struct {
	PostID        uuid.UUID      `json:"postId"`
	URL           string         `json:"url"`
	ParentPostID  *uuid.UUID     `json:"parentPostId"`
	Depth         int            `json:"depth"`
	ChapterNumber jsontext.Value `json:"chapterNumber"` // exact decimal; null for a comment on the novel as a whole
	Content       *string        `json:"content"`       // null when hidden or erased
	Hidden        bool           `json:"hidden"`
	Erased        bool           `json:"erased"`
	Author        *authorBody    `json:"author"` // null when hidden or erased
	WrittenAt     time.Time      `json:"writtenAt"`
	ReceivedAt    time.Time      `json:"receivedAt"`
}

// authorBody is a member, or else a user of a partner platform.
type authorBody struct {
	MemberID    string `json:"memberId,omitzero"`
	DisplayName string `json:"displayName,omitzero"`
	Platform    string `json:"platform,omitzero"`
}

func newPostBody(a web.Addresses, slug string, p *Post) postBody {
	body := postBody{
		PostID: p.ID, URL: a.Post(slug, p.ID), Depth: p.Depth, Hidden: p.Hidden, Erased: p.Erased, WrittenAt: p.WrittenAt,
		ReceivedAt: p.ReceivedAt,
	}
	if p.ParentID.Valid {
		body.ParentPostID = &p.ParentID.UUID
	}
	if p.Chapter != "" {
		body.ChapterNumber = jsontext.Value(p.Chapter)
	}
	if !p.Hidden && !p.Erased {
		body.Content = &p.Content
		body.Author = &authorBody{p.Author.MemberID, p.Author.Name, p.Author.Platform}
	}
	return body
}

// headingBody is the short form of a novel.
type headingBody struct {
	NovelID uuid.UUID `json:"novelId"`
	Slug    string    `json:"slug"`
	Novel   string    `json:"novel"`
	URL     string    `json:"url"`
}

func newHeadingBody(a web.Addresses, h *Heading) headingBody {
	return headingBody{h.ID, h.Slug, h.Title, a.Novel(h.Slug)}
}

// postOnNovelBody is a comment with its novel.
type postOnNovelBody struct {
	postBody `json:",inline"`

	ThreadID uuid.UUID   `json:"threadId"`
	Novel    headingBody `json:"novel"`
}

func newPostOnNovelBody(a web.Addresses, s *PostOnNovel) postOnNovelBody {
	return postOnNovelBody{newPostBody(a, s.Novel.Slug, &s.Post), s.ThreadID, newHeadingBody(a, &s.Novel)}
}

// post handles GET /api/posts/{postId}.
func (a *API) post(ctx context.Context, r *http.Request, _ *web.Query) (any, error) {
	id, ok := web.ParseID(mux.Vars(r)["postId"])
	if !ok {
		return nil, ErrNotFound
	}
	found, err := a.Reader.Post(ctx, id)
	if err != nil {
		return nil, err
	}
	return newPostOnNovelBody(a.Addresses, &found), nil
}

// RegisterOpenAPI adds the route of the interface description to router.
func RegisterOpenAPI(router *mux.Router, kit *web.Kit) {
	router.Handle("/openapi.yaml", kit.Public(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=300")
		web.Send(w, r, "application/yaml", docs.OpenAPI)
	}), kit.Refuse)).Methods(http.MethodGet, http.MethodHead)
}
