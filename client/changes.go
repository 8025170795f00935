package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Changes tells what happens to your novels, comments, authors, imports and keys.
type Changes struct{ sender *sender }

// Change is a change of the feed, and the body of a webhook.
type Change struct {
	ID         string          `json:"id"`
	Type       string          `json:"type"` // such as novel.rejected
	OccurredAt time.Time       `json:"occurredAt"`
	Cursor     string          `json:"cursor"` // the place behind it
	Data       json.RawMessage `json:"data"`   // members by type: ChangeData of openapi.yaml
}

// ChangePage is a part of the feed.
type ChangePage struct {
	Changes    []Change `json:"items"`
	Cursor     string   `json:"cursor"`     // where to continue
	NextCursor *string  `json:"nextCursor"` // the same; nil when there is no more for now
}

// Page returns up to a hundred changes after a cursor, "" for the beginning, of the given types or of all. Keep the
// Cursor of the page and continue there: you miss nothing and get nothing twice. If the service has lost changes, the
// error is an *Error with the code invalid_request: continue from the beginning, and pass over the IDs that you know.
func (c Changes) Page(ctx context.Context, cursor string, types ...string) (ChangePage, error) {
	query := url.Values{}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	if len(types) > 0 {
		query.Set("types", strings.Join(types, ","))
	}
	var page ChangePage
	_, err := c.sender.send(ctx, request{
		method: http.MethodGet, path: "/api/integrations/changes?" + query.Encode(),
	}, &page)
	return page, err
}
