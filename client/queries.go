package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Integration is your integration, with its limits.
type Integration struct {
	IntegrationID string   `json:"integrationId"`
	Name          string   `json:"name"`
	Enabled       bool     `json:"enabled"`      // always true: the service refuses a disabled integration
	Capabilities  []string `json:"capabilities"` // novels, posts, import
	Review        bool     `json:"review"`       // your new novels wait for approval by staff
	AuthorKey     string   `json:"authorKey"`    // derives the authorId in changes from your identifier of an author
	Key           struct {
		KeyID     string     `json:"keyId"`
		ExpiresAt *time.Time `json:"expiresAt"` // nil: never
	} `json:"key"` // the API key of the client
	Limits struct {
		Posts  Limit `json:"posts"`
		Novels Limit `json:"novels"` // new ones
		Lines  Limit `json:"lines"`  // of bulk imports
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

// Deliveries reports which of your commands the service has executed.
type Deliveries struct{ sender *sender }

// Operation is the kind of a command. The same key on two operations counts as two keys.
type Operation string

// The operations.
const (
	OperationNovels      Operation = "novels"
	OperationPosts       Operation = "posts"
	OperationEdits       Operation = "edits"
	OperationWithdrawals Operation = "withdrawals"
	OperationReports     Operation = "reports" // not in bulk
)

// Delivery is an executed command, with the current state of its novel or comment.
type Delivery struct {
	Operation      Operation `json:"operation"`
	IdempotencyKey string    `json:"idempotencyKey"`
	ReceivedAt     time.Time `json:"receivedAt"`
	NovelID        string    `json:"novelId"`
	Slug           string    `json:"slug"`
	URL            string    `json:"url"`
	State          string    `json:"state"`  // of the novel: pending, approved, published or rejected
	Reason         *string   `json:"reason"` // why staff rejected the novel, or hid the comment

	// For comments, edits, withdrawals and reports only.
	PostID       string  `json:"postId"`
	ThreadID     string  `json:"threadId"`
	ParentPostID *string `json:"parentPostId"`
	PostState    string  `json:"postState"` // visible, hidden or withdrawn
}

// Get returns the delivery of a key. If there is none, the error is an *Error with the code not_found.
func (d Deliveries) Get(ctx context.Context, operation Operation, key string) (Delivery, error) {
	return call[Delivery](ctx, d.sender, request{
		method: http.MethodGet,
		path: "/api/integrations/deliveries/" + url.PathEscape(key) +
			"?operation=" + url.QueryEscape(string(operation)),
	})
}

// maxKeys is the maximum number of keys in a request.
const maxKeys = 1000

// Missing returns the keys without an executed command, each once. Send their commands again, with the same keys.
// Failed commands, and upserts of novels that are not yours, are always missing.
func (d Deliveries) Missing(ctx context.Context, operation Operation, keys []string) ([]string, error) {
	seen := map[string]bool{}
	keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		again := seen[key]
		seen[key] = true
		return again
	})
	var missing []string
	for chunk := range slices.Chunk(keys, maxKeys) {
		answer, err := call[struct {
			Missing []string `json:"missing"`
		}](ctx, d.sender, request{
			method: http.MethodPost, path: "/api/integrations/deliveries/reconcile",
			body: map[string]any{"operation": operation, "idempotencyKeys": chunk},
		})
		if err != nil {
			return nil, err
		}
		missing = append(missing, answer.Missing...)
	}
	return missing, nil
}

// Refusal is a command of yours that the service refused.
type Refusal struct {
	RefusalID      string    `json:"refusalId"`
	RefusedAt      time.Time `json:"refusedAt"`
	RequestID      string    `json:"requestId"`
	Operation      string    `json:"operation"`      // or bulk: a request in bulk as a whole
	IdempotencyKey *string   `json:"idempotencyKey"` // nil without a valid one
	Code           string    `json:"code"`
	Field          *string   `json:"field"`  // the first invalid one; nil without one
	Detail         string    `json:"detail"` // without what the answer quoted of the command
}

// RefusalFilter selects refusals. Empty fields select all.
type RefusalFilter struct {
	Code           string
	Operation      string
	IdempotencyKey string
}

// RefusalPage is a page of refusals.
type RefusalPage struct {
	Refusals   []Refusal `json:"items"`
	NextCursor *string   `json:"nextCursor"` // continues after this page; nil: it is the last one
}

// Refusals returns refusals, newest first: up to fifty after a cursor; "" is the newest.
func (d Deliveries) Refusals(ctx context.Context, filter RefusalFilter, cursor string) (RefusalPage, error) {
	query := url.Values{}
	for name, value := range map[string]string{
		"code": filter.Code, "operation": filter.Operation, "key": filter.IdempotencyKey, "cursor": cursor,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return call[RefusalPage](ctx, d.sender,
		request{method: http.MethodGet, path: "/api/integrations/refusals?" + query.Encode()})
}

// Changes reads the change feed: what happens to your novels, comments and authors.
type Changes struct{ sender *sender }

// Change is an item of the change feed, and the body of a webhook.
type Change struct {
	ID         string          `json:"id"`
	Type       string          `json:"type"` // such as novel.rejected
	OccurredAt time.Time       `json:"occurredAt"`
	Cursor     string          `json:"cursor"` // continues after this change
	Data       json.RawMessage `json:"data"`   // depends on Type: see ChangeData in openapi.yaml
}

// ChangePage is a page of the change feed.
type ChangePage struct {
	Changes    []Change `json:"items"`
	Cursor     string   `json:"cursor"`     // continues after this page
	NextCursor *string  `json:"nextCursor"` // Cursor if there are further changes now, otherwise nil
}

// Page returns up to a hundred changes after a cursor; "" is the beginning. It returns changes of the given types, or
// of all types if none is given. Store the Cursor of the page and pass it to the next call: you then get every change
// once. If the service has lost changes, Page returns an *Error with the code invalid_request. Then read from the
// beginning, and skip changes whose ID you already have.
func (c Changes) Page(ctx context.Context, cursor string, types ...string) (ChangePage, error) {
	query := url.Values{}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	if len(types) > 0 {
		query.Set("types", strings.Join(types, ","))
	}
	return call[ChangePage](ctx, c.sender,
		request{method: http.MethodGet, path: "/api/integrations/changes?" + query.Encode()})
}

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
