package client

import (
	"context"
	"net/http"
	"time"
)

// Integration is your integration, with its limits.
type Integration struct {
	IntegrationID string   `json:"integrationId"`
	Name          string   `json:"name"`
	Enabled       bool     `json:"enabled"`      // always true: the service refuses a disabled integration
	Capabilities  []string `json:"capabilities"` // novels, posts, import
	Review        bool     `json:"review"`       // your new novels wait for approval by staff
	Key           struct {
		KeyID     string     `json:"keyId"`
		ExpiresAt *time.Time `json:"expiresAt"` // nil: never
	} `json:"key"` // the API key of the client
	Limits struct {
		Posts        Limit  `json:"posts"`
		Novels       Limit  `json:"novels"`       // new ones
		NovelUpdates *Limit `json:"novelUpdates"` // nil: no limit
		Lines        Limit  `json:"lines"`        // of bulk imports
	} `json:"limits"`
}

// Limit is a limit in any 60 seconds, and the part of it that remains.
type Limit struct {
	PerMinute    int `json:"perMinute"`
	Remaining    int `json:"remaining"`
	ResetSeconds int `json:"resetSeconds"` // until the whole limit remains again
}

// Me returns your integration.
func (c *Client) Me(ctx context.Context) (Integration, error) {
	return call[Integration](ctx, c.sender, request{method: http.MethodGet, path: "/api/integrations/me"})
}
