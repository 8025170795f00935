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
		method: http.MethodPost, path: "/api/integrations/novels", maxBody: maxBody, handle: a.upsertNovel,
		command: ratelimit.Novels, limits: []ratelimit.Operation{ratelimit.Novels, ratelimit.NovelUpdates},
		allowed: mayCreateNovels, missing: missingNovels,
	}
}

func mayCreateNovels(p *access.Principal) bool { return p.CanCreateNovels }

const missingNovels = "This integration lacks the capability to create novels."

// novelResponse is the body of SPEC 4.1.
type novelResponse struct {
	Created   bool      `json:"created"`
	Updated   bool      `json:"updated"`
	Canonical bool      `json:"canonical"`
	NovelID   uuid.UUID `json:"novelId"`
	Slug      string    `json:"slug"`
	URL       string    `json:"url"`
}

// upsertNovel handles POST /api/integrations/novels from its body on.
func (a *API) upsertNovel(ctx context.Context, in *input) (*output, error) {
	body, err := request.DecodeNovel(in.body)
	if err != nil {
		return nil, err //nolint:wrapcheck // already a problem
	}
	result, err := a.Committer.UpsertNovel(ctx, &committer.UpsertNovel{
		Caller: in.caller(), Key: in.key, Title: body.Title, FoldedTitle: body.FoldedTitle,
		Fields: novel.Fields{
			Author: body.Author, Synopsis: body.Synopsis, CoverURL: body.CoverURL, Language: body.Language,
			ReadingStatus: body.ReadingStatus, Genres: body.Genres,
		},
		Canonical: body.Canonical(),
	})
	if err != nil {
		return &output{replayed: result.Replayed, mismatch: result.Mismatch}, err // errors.go maps them
	}
	url := a.Addresses.Novel(result.Slug)
	out := &output{
		status: http.StatusOK, location: url, replayed: result.Replayed, mismatch: result.Mismatch,
		body: novelResponse{
			Created: result.Outcome == novel.Created, Updated: result.Outcome == novel.Updated,
			Canonical: result.Outcome == novel.Canonical, NovelID: result.NovelID, Slug: result.Slug, URL: url,
		},
	}
	switch {
	case result.Replayed:
		out.outcome = "replayed"
	case result.Outcome == novel.Created:
		out.status, out.outcome = http.StatusCreated, "created"
	case result.Outcome == novel.Updated:
		out.outcome = "updated"
	case result.Outcome == novel.Canonical:
		out.outcome = "canonical"
	default:
		out.outcome = "foreign"
	}
	return out, nil
}
