package audit

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"

	"novelgate/internal/httpkit"
)

func (a *API) log() *AccessLog { return &AccessLog{DB: a.DB} }

// accessPage is a page of the access log. NextCursor is null on the last page.
type accessPage struct {
	Items      []AccessEntry `json:"items"`
	NextCursor *string       `json:"nextCursor"`
}

// accessLog handles GET /api/access-log, newest entries first.
func (a *API) accessLog(w http.ResponseWriter, rd *read) error {
	before, limit := int64(math.MaxInt64), rd.query.Limit(defaultPage, maxPage)
	if place := rd.query.Cursor(""); place != "" {
		var err error
		if before, err = strconv.ParseInt(place, 10, 64); err != nil {
			rd.query.RefuseCursor()
		}
	}
	if err := rd.query.Err(); err != nil {
		return err //nolint:wrapcheck // already a problem
	}
	return a.send(w, rd, "application/json", func(ctx context.Context) ([]byte, int64, error) {
		entries, err := a.log().List(ctx, before, limit+1)
		if err != nil {
			return nil, 0, err
		}
		page := accessPage{Items: entries}
		if len(entries) > limit {
			page.Items = entries[:limit]
			next := httpkit.EncodeCursor("", strconv.FormatInt(entries[limit-1].ID, 10))
			page.NextCursor = &next
		}
		body, err := json.Marshal(page)
		if err != nil {
			return nil, 0, fmt.Errorf("render access log: %w", err)
		}
		return body, int64(len(page.Items)), nil
	})
}
