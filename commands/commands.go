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
	Warnings  []Warning `json:"warnings,omitempty"`
}

// Warning tells of a part of a command that was left out of what was executed.
type Warning struct {
	Code    string `json:"code"` // unknown_member or parent_not_found
	Field   string `json:"field"`
	Message string `json:"message"`
}

// unknownMembers returns a warning for each member that is ignored.
func unknownMembers(names []string) []Warning {
	var list []Warning
	for _, name := range names {
		list = append(list, Warning{"unknown_member", name, "is no member of this command, and was ignored"})
	}
	return list
}

// NewNovelAnswer returns the answer to an upsert with a body.
func NewNovelAnswer(addresses web.Addresses, body *request.Novel, result *committer.Result) NovelAnswer {
	return NovelAnswer{
		Created: result.Outcome == novel.Created, Updated: result.Outcome == novel.Updated,
		Canonical: result.Outcome == novel.Canonical, NovelID: result.NovelID, Slug: result.Slug,
		URL: addresses.Novel(result.Slug), Warnings: unknownMembers(body.Unknown),
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
	novelAnswer := NewNovelAnswer(a.Addresses, &body, &result)
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
	Warnings     []Warning  `json:"warnings,omitempty"`
}

// NewPostAnswer returns the answer to a comment with a body.
func NewPostAnswer(addresses web.Addresses, body *request.Post, result *committer.Result) PostAnswer {
	warnings := unknownMembers(body.Unknown)
	if body.ParentKey != nil && result.ParentPostID == nil {
		warnings = append(warnings, Warning{
			"parent_not_found", "parent_uuid",
			"was no key of a comment of yours in this discussion, so the comment is a top-level one",
		})
	}
	return PostAnswer{
		Created: !result.Replayed, PostID: result.PostID, ThreadID: result.ThreadID, ParentPostID: result.ParentPostID,
		URL: addresses.Post(result.Slug, result.PostID), Warnings: warnings,
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
	postAnswer := NewPostAnswer(a.Addresses, &body, &result)
	return created(postAnswer.Created, postAnswer, postAnswer.URL), result, nil
}
