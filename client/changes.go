package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
)

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
