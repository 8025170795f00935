package client

import (
	"context"
	"net/http"
	"time"
)

// Webhooks manages the endpoints to which the service sends your changes.
type Webhooks struct{ sender *sender }

// Webhook is one of your endpoints.
type Webhook struct {
	WebhookID      string     `json:"webhookId"`
	URL            string     `json:"url"`
	Types          []string   `json:"types"` // of the changes that it gets; nil: all types
	Enabled        bool       `json:"enabled"`
	Disabled       *string    `json:"disabled"` // cause: partner, staff, gone (it answered 410) or failing; nil while enabled
	DisabledAt     *time.Time `json:"disabledAt"`
	DisabledReason *string    `json:"disabledReason"` // given by staff
	CreatedAt      time.Time  `json:"createdAt"`
	Waiting        int        `json:"waiting"`       // changes of all types that were not accepted yet, up to 1,000
	Failures       int        `json:"failures"`      // since the last success
	FailingSince   *time.Time `json:"failingSince"`  // the first of them
	NextAttemptAt  *time.Time `json:"nextAttemptAt"` // end of the pause after a failure
	Attempts       []Attempt  `json:"attempts"`      // the last twenty, newest first
	// Secret verifies requests, with a library of Standard Webhooks. Only Create returns it.
	Secret string `json:"secret,omitempty"`
}

// Attempt is a request to one of your endpoints.
type Attempt struct {
	At           time.Time `json:"at"`
	ID           string    `json:"id"` // of the change
	Type         string    `json:"type"`
	Delivered    bool      `json:"delivered"`
	Status       *int      `json:"status"` // nil without an answer
	Error        *string   `json:"error"`
	Milliseconds int       `json:"milliseconds"`
}

const webhooksPath = "/api/integrations/webhooks"

// Create makes the service send your future changes of the given types, or of all types, to an endpoint. If an answer
// gets lost, the client's next attempt finds the webhook, and Create fails with the code conflict. Then delete the
// webhook, which List shows, and create it again, because only the lost answer had the secret.
func (w Webhooks) Create(ctx context.Context, url string, types ...string) (Webhook, error) {
	body := map[string]any{"url": url}
	if len(types) > 0 {
		body["types"] = types
	}
	return call[Webhook](ctx, w.sender, request{method: http.MethodPost, path: webhooksPath, body: body})
}

// List returns your webhooks.
func (w Webhooks) List(ctx context.Context) ([]Webhook, error) {
	list, err := call[struct {
		Items []Webhook `json:"items"`
	}](ctx, w.sender, request{method: http.MethodGet, path: webhooksPath})
	return list.Items, err
}

// Delete deletes a webhook.
func (w Webhooks) Delete(ctx context.Context, webhookID string) error {
	_, err := w.sender.send(ctx, request{method: http.MethodDelete, path: webhooksPath + "/" + webhookID}, nil)
	return err
}

// Enable enables a disabled webhook, for instance after its endpoint was repaired. The service then also sends the
// changes since it was disabled.
func (w Webhooks) Enable(ctx context.Context, webhookID string) (Webhook, error) {
	return call[Webhook](ctx, w.sender, request{
		method: http.MethodPatch, path: webhooksPath + "/" + webhookID, body: map[string]bool{"enabled": true},
	})
}
