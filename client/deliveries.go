package client

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// Deliveries reports which of your commands the service has executed.
type Deliveries struct{ sender *sender }

// Operation is the kind of a command. The same key on two operations counts as two keys.
type Operation string

// The operations.
const (
	OperationNovels Operation = "novels"
	OperationPosts  Operation = "posts"
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

	// For comments only.
	PostID       string  `json:"postId"`
	ThreadID     string  `json:"threadId"`
	ParentPostID *string `json:"parentPostId"`
	PostState    string  `json:"postState"` // visible or hidden
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
