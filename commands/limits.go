package commands

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"novelgate/commands/ratelimit"
	"novelgate/internal/auth"
)

// Limits shows the limits per minute of integrations, as this replica knows them.
type Limits struct {
	Limiter interface {
		Status(k ratelimit.Key, limit int) ratelimit.Decision
	}
}

// SetHeaders sets the headers of answers to queries: all limits of the integration.
func (l Limits) SetHeaders(h http.Header, caller *auth.Integration) {
	l.setHeaders(h, caller, ratelimit.Posts, ratelimit.Novels, ratelimit.Lines)
}

// setHeaders sets RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers): q is the limit, w the window
// in seconds, r the remaining permits, t the seconds until all permits are available again.
func (l Limits) setHeaders(h http.Header, caller *auth.Integration, operations ...ratelimit.Operation) {
	var policy, current strings.Builder
	for _, operation := range operations {
		found := l.of(caller, operation)
		if policy.Len() > 0 {
			policy.WriteString(", ")
			current.WriteString(", ")
		}
		policy.WriteString(`"` + string(operation) + `";q=` + strconv.Itoa(found.PerMinute) + ";w=" +
			strconv.Itoa(int(ratelimit.Window/time.Second)))
		current.WriteString(`"` + string(operation) + `";r=` + strconv.Itoa(found.Remaining) + ";t=" +
			strconv.Itoa(found.ResetSeconds))
	}
	// The names in Go's canonical form.
	h["Ratelimit-Policy"], h["Ratelimit"] = []string{policy.String()}, []string{current.String()}
}

// limitResponse is a limit in any 60 seconds and its current use.
type limitResponse struct {
	PerMinute    int `json:"perMinute"`
	Remaining    int `json:"remaining"`    // as known to this replica
	ResetSeconds int `json:"resetSeconds"` // until all permits are available again, rounded up
}

// of returns the limit of an operation.
func (l Limits) of(caller *auth.Integration, operation ratelimit.Operation) limitResponse {
	var limit int
	switch operation {
	case ratelimit.Posts:
		limit = caller.PostsPerMinute
	case ratelimit.Novels:
		limit = caller.NovelsPerMinute
	case ratelimit.Lines:
		limit = caller.LinesPerMinute
	}
	status := l.Limiter.Status(ratelimit.Key{Integration: caller.IntegrationID, Operation: operation}, limit)
	return limitResponse{limit, status.Remaining, int((status.Reset + time.Second - 1) / time.Second)}
}

// meResponse is the response with the settings and limits of an integration.
type meResponse struct {
	IntegrationID uuid.UUID `json:"integrationId"`
	Name          string    `json:"name"`
	Enabled       bool      `json:"enabled"`      // always true: a disabled integration gets 403
	Capabilities  []string  `json:"capabilities"` // novels, posts, import, in this order
	Review        bool      `json:"review"`
	AuthorKey     string    `json:"authorKey"` // for events.AuthorID
	Key           struct {
		KeyID     uuid.UUID  `json:"keyId"`
		ExpiresAt *time.Time `json:"expiresAt"` // nil: never
	} `json:"key"` // of this request
	Limits struct {
		Posts  limitResponse `json:"posts"`
		Novels limitResponse `json:"novels"`
		Lines  limitResponse `json:"lines"` // of bulk requests
	} `json:"limits"`
}

// me handles GET /api/integrations/me.
func (a *API) me(_ context.Context, c *call) (*answer, error) {
	i := c.Caller
	body := meResponse{
		IntegrationID: i.IntegrationID, Name: i.Name, Enabled: i.Enabled, Review: i.Review, AuthorKey: i.AuthorKey,
		Capabilities: []string{},
	}
	body.Key.KeyID, body.Key.ExpiresAt = i.KeyID, i.KeyExpiresAt
	if i.CanCreateNovels {
		body.Capabilities = append(body.Capabilities, "novels")
	}
	if i.CanPost {
		body.Capabilities = append(body.Capabilities, "posts")
	}
	if i.CanImport {
		body.Capabilities = append(body.Capabilities, "import")
	}
	body.Limits.Posts, body.Limits.Novels = a.Limits.of(i, ratelimit.Posts), a.Limits.of(i, ratelimit.Novels)
	body.Limits.Lines = a.Limits.of(i, ratelimit.Lines)
	return &answer{Body: body}, nil
}
