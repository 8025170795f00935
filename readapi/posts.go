package readapi

import (
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/gorilla/mux"

	"novelgate/internal/httpkit"
	"novelgate/readapi/queries"
)

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

func newPostBody(a httpkit.Addresses, slug string, p *queries.Post) postBody {
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

// headingBody is a novel, in short.
type headingBody struct {
	NovelID uuid.UUID `json:"novelId"`
	Slug    string    `json:"slug"`
	Novel   string    `json:"novel"`
	URL     string    `json:"url"`
}

func newHeadingBody(a httpkit.Addresses, h *queries.Heading) headingBody {
	return headingBody{h.ID, h.Slug, h.Title, a.Novel(h.Slug)}
}

// singleBody is a comment with its novel.
type singleBody struct {
	postBody `json:",inline"`

	ThreadID uuid.UUID   `json:"threadId"`
	Novel    headingBody `json:"novel"`
}

// post handles GET /api/posts/{postId}.
func (a *API) post(ctx context.Context, r *http.Request, _ *httpkit.Query) (any, error) {
	id, err := queries.ParseID(mux.Vars(r)["postId"])
	if err != nil {
		return nil, err //nolint:wrapcheck // not found
	}
	found, err := a.Reader.Post(ctx, id)
	if err != nil {
		return nil, err //nolint:wrapcheck // the error names the operation
	}
	return singleBody{
		newPostBody(a.Addresses, found.Novel.Slug, &found.Post), found.ThreadID, newHeadingBody(a.Addresses, &found.Novel),
	}, nil
}
