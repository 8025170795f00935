package commands

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/commands/committer"
	"novelgate/commands/request"
)

// novelResponse is the body of SPEC 4.1.
type novelResponse struct {
	Created   bool      `json:"created"`
	Updated   bool      `json:"updated"`
	Canonical bool      `json:"canonical"`
	NovelID   uuid.UUID `json:"novelId"`
	Slug      string    `json:"slug"`
	URL       string    `json:"url"`
}

// upsertNovel handles POST /api/integrations/novels.
func (a *API) upsertNovel(
	ctx context.Context, c *call, caller committer.Caller,
) (_ *answer, result committer.Result, err error) {
	body, err := request.DecodeNovel(c.Body)
	if err != nil {
		return nil, result, err
	}
	if result, err = a.Committer.Execute(ctx, committer.NewUpsertNovel(caller, c.Key, &body)); err != nil {
		return nil, result, err
	}
	url := a.Addresses.Novel(result.Slug)
	found := &answer{Status: http.StatusOK, Body: novelResponse{
		Created: result.Outcome == novel.Created, Updated: result.Outcome == novel.Updated,
		Canonical: result.Outcome == novel.Canonical, NovelID: result.NovelID, Slug: result.Slug, URL: url,
	}}
	if result.Outcome == novel.Created && !result.Replayed {
		found.Status, found.Location = http.StatusCreated, url
	}
	return found, result, nil
}

// postResponse is the body of SPEC 4.2.
type postResponse struct {
	Created      bool       `json:"created"`
	PostID       uuid.UUID  `json:"postId"`
	ThreadID     uuid.UUID  `json:"threadId"`
	ParentPostID *uuid.UUID `json:"parentPostId"`
	URL          string     `json:"url"`
}

// importPost handles POST /api/integrations/posts.
func (a *API) importPost(
	ctx context.Context, c *call, caller committer.Caller,
) (_ *answer, result committer.Result, err error) {
	body, err := request.DecodePost(c.Body, c.ReceivedAt)
	if err != nil {
		return nil, result, err
	}
	if result, err = a.Committer.Execute(ctx, committer.NewImportPost(caller, c.Key, &body)); err != nil {
		return nil, result, err
	}
	url := a.Addresses.Post(result.Slug, result.PostID)
	found := &answer{
		Status: http.StatusOK,
		Body:   postResponse{!result.Replayed, result.PostID, result.ThreadID, result.ParentPostID, url},
	}
	if !result.Replayed {
		found.Status, found.Location = http.StatusCreated, url
	}
	return found, result, nil
}
