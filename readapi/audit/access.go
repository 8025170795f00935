package audit

import (
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"

	"novelgate/readapi/accesslog"
)

func (a *API) log() *accesslog.Log { return &accesslog.Log{DB: a.DB} }

// accessPage is a page of the access log. NextCursor is null on the last one.
type accessPage struct {
	Items      []accesslog.Entry `json:"items"`
	NextCursor *string           `json:"nextCursor"`
}

// accessLog handles GET /api/access-log: newest first.
func (a *API) accessLog(w http.ResponseWriter, rd *read) error {
	before, limit := int64(math.MaxInt64), defaultPage
	for name, text := range rd.query {
		var err error
		switch name {
		case "limit":
			if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxPage {
				return invalid(name, fmt.Sprintf("must be a number from 1 to %d", maxPage))
			}
		case "cursor":
			decoded, decodeErr := base64.RawURLEncoding.DecodeString(text)
			if before, err = strconv.ParseInt(string(decoded), 10, 64); err != nil || decodeErr != nil {
				return invalid(name, "is not the nextCursor of a page")
			}
		default:
			return invalid(name, "is no parameter of this address")
		}
	}
	return a.send(w, rd, "application/json", func(ctx context.Context) ([]byte, int64, error) {
		entries, err := a.log().List(ctx, before, limit+1)
		if err != nil {
			return nil, 0, err
		}
		page := accessPage{Items: entries}
		if len(entries) > limit {
			page.Items = entries[:limit]
			next := base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(entries[limit-1].ID, 10)))
			page.NextCursor = &next
		}
		body, err := json.Marshal(page)
		if err != nil {
			return nil, 0, fmt.Errorf("render access log: %w", err)
		}
		return body, int64(len(page.Items)), nil
	})
}
