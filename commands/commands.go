package commands

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/commands/committer"
	"novelgate/commands/request"
	"novelgate/internal/web"
)

// NovelAnswer is the body of SPEC 4.1.
type NovelAnswer struct {
	Created   bool      `json:"created"`
	Updated   bool      `json:"updated"`
	Canonical bool      `json:"canonical"`
	NovelID   uuid.UUID `json:"novelId"`
	Slug      string    `json:"slug"`
	URL       string    `json:"url"`
}

// NewNovelAnswer returns the answer to an upsert.
func NewNovelAnswer(addresses web.Addresses, result *committer.Result) NovelAnswer {
	return NovelAnswer{
		Created: result.Outcome == novel.Created, Updated: result.Outcome == novel.Updated,
		Canonical: result.Outcome == novel.Canonical, NovelID: result.NovelID, Slug: result.Slug,
		URL: addresses.Novel(result.Slug),
	}
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
	novelAnswer := NewNovelAnswer(a.Addresses, &result)
	return created(result.Outcome == novel.Created && !result.Replayed, novelAnswer, novelAnswer.URL), result, nil
}

// created returns an answer that is 201 with an address if the command created its object.
func created(isCreated bool, body any, url string) *answer {
	if isCreated {
		return &answer{Status: http.StatusCreated, Location: url, Body: body}
	}
	return &answer{Body: body}
}

// PostAnswer is the body of SPEC 4.2.
type PostAnswer struct {
	Created      bool       `json:"created"`
	PostID       uuid.UUID  `json:"postId"`
	ThreadID     uuid.UUID  `json:"threadId"`
	ParentPostID *uuid.UUID `json:"parentPostId"`
	URL          string     `json:"url"`
}

// NewPostAnswer returns the answer to a comment.
func NewPostAnswer(addresses web.Addresses, result *committer.Result) PostAnswer {
	return PostAnswer{
		Created: !result.Replayed, PostID: result.PostID, ThreadID: result.ThreadID, ParentPostID: result.ParentPostID,
		URL: addresses.Post(result.Slug, result.PostID),
	}
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
	postAnswer := NewPostAnswer(a.Addresses, &result)
	return created(postAnswer.Created, postAnswer, postAnswer.URL), result, nil
}
