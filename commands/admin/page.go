package admin

import (
	"encoding/base64"
	"fmt"
	"strconv"

	"novelgate/commands/problem"
)

// The sizes of pages.
const (
	defaultPage = 50
	maxPage     = 500
)

// page is a part of a list. NextCursor is null on the last one.
type page[T any] struct {
	Items      []T     `json:"items"`
	NextCursor *string `json:"nextCursor"`
}

// cursorAndLimit reads where a page starts, "" for the first, and how many items it has.
func (c *call) cursorAndLimit() (after string, limit int, err error) {
	query := c.URL.Query()
	limit = defaultPage
	if text := query.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxPage {
			return "", 0, problem.InvalidRequest(problem.FieldError{Field: "limit", Message: fmt.Sprintf("must be a number from 1 to %d", maxPage)})
		}
	}
	decoded, err := base64.RawURLEncoding.DecodeString(query.Get("cursor"))
	if err != nil {
		return "", 0, problem.InvalidRequest(problem.FieldError{Field: "cursor", Message: "is not the nextCursor of a page"})
	}
	return string(decoded), limit, nil
}

// paginate cuts a list that was read with one item more than limit.
func paginate[T any](items []T, limit int, key func(T) string) page[T] {
	if len(items) <= limit {
		return page[T]{Items: items}
	}
	items = items[:limit]
	cursor := base64.RawURLEncoding.EncodeToString([]byte(key(items[limit-1])))
	return page[T]{Items: items, NextCursor: &cursor}
}
