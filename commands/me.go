package commands

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"novelgate/commands/ratelimit"
)

// meResponse is the response with the settings and limits of an integration.
type meResponse struct {
	IntegrationID uuid.UUID `json:"integrationId"`
	Name          string    `json:"name"`
	Enabled       bool      `json:"enabled"`      // always true: a disabled integration gets 403
	Capabilities  []string  `json:"capabilities"` // novels, posts, in this order
	Review        bool      `json:"review"`
	Limits        struct {
		Posts  limitResponse `json:"posts"`
		Novels limitResponse `json:"novels"`
		// NovelUpdates is nil for no limit.
		NovelUpdates *limitResponse `json:"novelUpdates"`
	} `json:"limits"`
}

// limitResponse is a limit in any 60 seconds and its current use.
type limitResponse struct {
	PerMinute    int `json:"perMinute"`
	Remaining    int `json:"remaining"`    // as known to this replica
	ResetSeconds int `json:"resetSeconds"` // until the window is empty, rounded up
}

func (a *API) meRoute() *route {
	return &route{method: http.MethodGet, path: "/api/integrations/me", handle: a.me}
}

// me handles GET /api/integrations/me.
func (a *API) me(_ context.Context, in *input) (*output, error) {
	response := meResponse{IntegrationID: in.IntegrationID, Name: in.Name, Enabled: in.Enabled, Review: in.Review}
	if in.CanCreateNovels {
		response.Capabilities = append(response.Capabilities, string(ratelimit.Novels))
	}
	if in.CanPost {
		response.Capabilities = append(response.Capabilities, string(ratelimit.Posts))
	}
	response.Limits.Posts = *a.limitOf(in, ratelimit.Posts)
	response.Limits.Novels = *a.limitOf(in, ratelimit.Novels)
	response.Limits.NovelUpdates = a.limitOf(in, ratelimit.NovelUpdates)
	return &output{status: http.StatusOK, body: response}, nil
}

// limitOf returns a limit with its current use, nil when there is none.
func (a *API) limitOf(in *input, operation ratelimit.Operation) *limitResponse {
	limit, ok := perMinute(in.Principal, operation)
	if !ok {
		return nil
	}
	status := a.Limiter.Status(in.IntegrationID, operation, limit)
	return &limitResponse{PerMinute: limit, Remaining: status.Remaining, ResetSeconds: wholeSeconds(status.Reset)}
}
