package commands

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"novelgate/aggregates/post"
	"novelgate/commands/access"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/commands/request"
	"novelgate/events"
	"novelgate/internal/problem"
)

func (a *API) postsRoute() *route {
	return &route{
		method: http.MethodPost, path: "/api/integrations/posts", maxBody: maxBody, handle: a.importPost,
		command: ratelimit.Posts, limits: []ratelimit.Operation{ratelimit.Posts},
		allowed: func(p *access.Principal) bool { return p.CanPost },
		missing: "This integration lacks the capability of post ingestion.",
	}
}

// postResponse is the body of SPEC 4.2.
type postResponse struct {
	Created      bool       `json:"created"`
	PostID       uuid.UUID  `json:"postId"`
	ThreadID     uuid.UUID  `json:"threadId"`
	ParentPostID *uuid.UUID `json:"parentPostId"`
	URL          string     `json:"url"`
}

// importPost handles POST /api/integrations/posts from its body on.
func (a *API) importPost(ctx context.Context, in *input) (*output, error) {
	body, err := request.DecodePost(in.body, in.receivedAt)
	if err != nil {
		return nil, err // already a problem
	}
	taken, err := a.Limiter.Take(ctx, in.IntegrationID, ratelimit.Posts, in.PostsPerMinute, 1)
	if err != nil {
		return nil, err //nolint:wrapcheck // the error names the operation
	}
	if taken.Granted == 0 {
		return nil, problem.RateLimited(taken.RetryAfter)
	}
	cmd := &committer.ImportPost{
		Caller: in.caller(), Key: in.key, Title: body.Title, FoldedTitle: body.FoldedTitle,
		Import: post.Import{
			IntegrationID: in.IntegrationID,
			Comment:       events.Comment{ExternalUUID: body.AuthorUUID, Username: body.Username, Content: body.Content},
			WrittenAt:     body.WrittenAt,
		},
		ParentKey: body.ParentKey, Canonical: body.Canonical(),
	}
	if body.Chapter != nil {
		cmd.Import.ChapterNumber = jsontext.Value(*body.Chapter)
	}
	result, err := a.Committer.ImportPost(ctx, cmd)
	if err != nil {
		return nil, err // errors.go maps them
	}
	url := a.Addresses.Post(result.NovelSlug, result.PostID)
	out := &output{
		status: http.StatusCreated, location: url, replayed: result.Replayed, mismatch: result.Mismatch, outcome: "created",
		body: postResponse{!result.Replayed, result.PostID, result.ThreadID, result.ParentPostID, url},
	}
	if result.Replayed {
		out.status, out.outcome = http.StatusOK, "replayed"
	}
	return out, nil
}
