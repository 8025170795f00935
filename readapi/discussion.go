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

// discussionBody is a page of a discussion.
type discussionBody struct {
	Novel          headingBody   `json:"novel"`
	ThreadID       uuid.NullUUID `json:"threadId"` // null without comments
	AsOf           *time.Time    `json:"asOf,omitzero"`
	Items          []threadBody  `json:"items"`
	PreviousCursor *string       `json:"previousCursor"`
	NextCursor     *string       `json:"nextCursor"`
}

// threadBody is a top-level comment with some of its replies.
type threadBody struct {
	postBody `json:",inline"`

	Replies       []postBody `json:"replies"`
	RepliesCursor *string    `json:"repliesCursor"` // of further replies, for use with under; null without any
}

// discussion handles GET /api/novels/{slug}/discussion.
func (a *API) discussion(ctx context.Context, r *http.Request, q *httpkit.Query) (any, error) {
	params, err := queries.ParseDiscussion(mux.Vars(r)["slug"], q)
	if err != nil {
		return nil, err //nolint:wrapcheck // already a problem
	}
	page, err := a.Reader.Discussion(ctx, params)
	if err != nil {
		return nil, err //nolint:wrapcheck // the error names the operation
	}
	return newDiscussionBody(a.Addresses, page, params.AsOf), nil
}

func newDiscussionBody(a httpkit.Addresses, page *queries.Page, asOf *time.Time) discussionBody {
	body := discussionBody{
		Novel: newHeadingBody(a, &page.Novel), ThreadID: page.ThreadID, AsOf: momentOrNull(asOf),
		Items:          make([]threadBody, len(page.Threads)),
		PreviousCursor: orNull(page.Previous), NextCursor: orNull(page.Next),
	}
	for i := range page.Threads {
		t := &page.Threads[i]
		item := threadBody{
			postBody: newPostBody(a, page.Novel.Slug, &t.Post), Replies: make([]postBody, len(t.Replies)),
			RepliesCursor: orNull(t.More),
		}
		for j := range t.Replies {
			item.Replies[j] = newPostBody(a, page.Novel.Slug, &t.Replies[j])
		}
		body.Items[i] = item
	}
	return body
}
