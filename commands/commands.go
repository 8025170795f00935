package commands

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"novelgate/aggregates/novel"
	"novelgate/commands/access"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/commands/request"
)

func (a *API) novelsRoute() *route {
	return &route{
		method: http.MethodPost, path: "/api/integrations/novels", maxBody: request.MaxBody, handle: a.upsertNovel,
		command: ratelimit.Novels, limits: []ratelimit.Operation{ratelimit.Novels, ratelimit.NovelUpdates},
		allowed: canCreateNovels, missing: cannotCreateNovels,
	}
}

func canCreateNovels(caller *access.Integration) bool { return caller.CanCreateNovels }

const cannotCreateNovels = "This integration lacks the capability to create novels."

// novelResponse is the body of SPEC 4.1.
type novelResponse struct {
	Created   bool      `json:"created"`
	Updated   bool      `json:"updated"`
	Canonical bool      `json:"canonical"`
	NovelID   uuid.UUID `json:"novelId"`
	Slug      string    `json:"slug"`
	URL       string    `json:"url"`
}

// upsertNovel handles POST /api/integrations/novels after the checks of serve.
func (a *API) upsertNovel(ctx context.Context, in *input) (*output, error) {
	body, err := request.DecodeNovel(in.body)
	if err != nil {
		return nil, err
	}
	// The committer takes the permit, because its limit depends on the outcome.
	result, err := a.Committer.Execute(ctx, committer.NewUpsertNovel(in.caller(), in.key, &body))
	if err != nil { // a refused retry has the headers of a replay, too
		return &output{replayed: result.Replayed, mismatch: result.Mismatch}, err
	}
	url := a.Addresses.Novel(result.Slug)
	out := &output{
		status: http.StatusOK, location: url, replayed: result.Replayed, mismatch: result.Mismatch,
		outcome: result.Outcome.String(), body: novelResponse{
			Created: result.Outcome == novel.Created, Updated: result.Outcome == novel.Updated,
			Canonical: result.Outcome == novel.Canonical, NovelID: result.NovelID, Slug: result.Slug, URL: url,
		},
	}
	if result.Outcome == novel.Created {
		out.status = http.StatusCreated
	}
	if result.Replayed {
		out.status, out.outcome = http.StatusOK, "replayed"
	}
	return out, nil
}

func (a *API) postsRoute() *route {
	return &route{
		method: http.MethodPost, path: "/api/integrations/posts", maxBody: request.MaxBody, handle: a.importPost,
		command: ratelimit.Posts, limits: []ratelimit.Operation{ratelimit.Posts},
		allowed: func(caller *access.Integration) bool { return caller.CanPost },
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

// importPost handles POST /api/integrations/posts after the checks of serve.
func (a *API) importPost(ctx context.Context, in *input) (*output, error) {
	body, err := request.DecodePost(in.body, in.receivedAt)
	if err != nil {
		return nil, err // a *problem.Error already
	}
	result, err := a.Committer.Execute(ctx, committer.NewImportPost(in.caller(), in.key, &body))
	if err != nil {
		return nil, err
	}
	url := a.Addresses.Post(result.Slug, result.PostID)
	out := &output{
		status: http.StatusCreated, location: url, replayed: result.Replayed, mismatch: result.Mismatch, outcome: "created",
		body: postResponse{!result.Replayed, result.PostID, result.ThreadID, result.ParentPostID, url},
	}
	if result.Replayed {
		out.status, out.outcome = http.StatusOK, "replayed"
	}
	return out, nil
}
