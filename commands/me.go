package commands

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"novelgate/commands/ratelimit"
)

// meAnswer is how an integration stands.
type meAnswer struct {
	IntegrationID uuid.UUID `json:"integrationId"`
	Name          string    `json:"name"`
	Enabled       bool      `json:"enabled"`      // a disabled one is refused
	Capabilities  []string  `json:"capabilities"` // novels, posts, in this order
	Review        bool      `json:"review"`
	Limits        struct {
		Posts  limitAnswer `json:"posts"`
		Novels limitAnswer `json:"novels"`
		// NovelUpdates is nil when updates are not limited.
		NovelUpdates *limitAnswer `json:"novelUpdates"`
	} `json:"limits"`
}

// limitAnswer is a limit of so many in any 60 seconds.
type limitAnswer struct {
	PerMinute    int `json:"perMinute"`
	Remaining    int `json:"remaining"`    // as this replica knows
	ResetSeconds int `json:"resetSeconds"` // until all of it is back, rounded up
}

func (a *API) meRoute() *route {
	return &route{method: http.MethodGet, path: "/api/integrations/me", handle: a.me}
}

// me handles GET /api/integrations/me.
func (a *API) me(_ context.Context, in *input) (*output, error) {
	answer := meAnswer{IntegrationID: in.IntegrationID, Name: in.Name, Enabled: in.Enabled, Review: in.Review}
	if in.CanCreateNovels {
		answer.Capabilities = append(answer.Capabilities, string(ratelimit.Novels))
	}
	if in.CanPost {
		answer.Capabilities = append(answer.Capabilities, string(ratelimit.Posts))
	}
	answer.Limits.Posts = *a.limitOf(in, ratelimit.Posts)
	answer.Limits.Novels = *a.limitOf(in, ratelimit.Novels)
	answer.Limits.NovelUpdates = a.limitOf(in, ratelimit.NovelUpdates)
	return &output{status: http.StatusOK, body: answer}, nil
}

// limitOf returns how a limit stands, nil when there is none.
func (a *API) limitOf(in *input, operation ratelimit.Operation) *limitAnswer {
	limit, ok := perMinute(in.Principal, operation)
	if !ok {
		return nil
	}
	status := a.Limiter.Status(in.IntegrationID, operation, limit)
	return &limitAnswer{PerMinute: limit, Remaining: status.Remaining, ResetSeconds: wholeSeconds(status.Reset)}
}
