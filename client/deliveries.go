package client

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// Deliveries tells what the service has on record of your commands.
type Deliveries struct{ sender *sender }

// Operation is the kind of a command. The same key on two operations counts as two keys.
type Operation string

// The operations.
const (
	OperationNovels Operation = "novels"
	OperationPosts  Operation = "posts"
)

// Delivery is a command on record, with today's state of what it made.
type Delivery struct {
	Operation      Operation `json:"operation"`
	IdempotencyKey string    `json:"idempotencyKey"`
	ReceivedAt     time.Time `json:"receivedAt"`
	NovelID        string    `json:"novelId"`
	Slug           string    `json:"slug"`
	URL            string    `json:"url"`
	State          string    `json:"state"`  // of the novel: pending, approved, published or rejected
	Reason         *string   `json:"reason"` // why staff rejected the novel, or hid the comment

	// Of comments only.
	PostID       string  `json:"postId"`
	ThreadID     string  `json:"threadId"`
	ParentPostID *string `json:"parentPostId"`
	PostState    string  `json:"postState"` // visible or hidden
}

// Get returns the delivery of a key. If there is none, the error is an *Error with the code not_found.
func (d Deliveries) Get(ctx context.Context, operation Operation, key string) (Delivery, error) {
	var answer Delivery
	_, err := d.sender.send(ctx, request{
		method: http.MethodGet,
		path: "/api/integrations/deliveries/" + url.PathEscape(key) +
			"?operation=" + url.QueryEscape(string(operation)),
	}, &answer)
	return answer, err
}

// most is the number of keys that one request may name.
const most = 1000

// Missing returns the keys that are not on record, each once: send their commands again, with the same keys. Commands
// that failed, and upserts of novels that are not yours, are never on record.
func (d Deliveries) Missing(ctx context.Context, operation Operation, keys []string) ([]string, error) {
	var missing []string
	for chunk := range slices.Chunk(keys, most) {
		body, err := encode(map[string]any{"operation": operation, "idempotencyKeys": chunk})
		if err != nil {
			return nil, err
		}
		var answer struct {
			Missing []string `json:"missing"`
		}
		if _, err := d.sender.send(ctx, request{
			method: http.MethodPost, path: "/api/integrations/deliveries/reconcile", body: body,
		}, &answer); err != nil {
			return nil, err
		}
		missing = append(missing, answer.Missing...)
	}
	return missing, nil
}
