package web

import (
	"encoding/base64"
	"strings"
)

// Page is one page of a list. NextCursor is null on the last page.
type Page[T any] struct {
	Items      []T     `json:"items"`
	NextCursor *string `json:"nextCursor"`
}

// NewPage returns a page with the first limit items. More items than limit mean that the page is not the last one.
// sortKey returns the sort key of an item in the list.
func NewPage[T any](list string, items []T, limit int, sortKey func(*T) string) Page[T] {
	page := Page[T]{Items: items}
	if len(items) > limit {
		page.Items, page.NextCursor = items[:limit], new(EncodeCursor(list, sortKey(&items[limit-1])))
	}
	return page
}

// EncodeCursor returns a cursor for clients: the name of the list and a sort key, in base64url. The name makes the
// cursor invalid for other lists.
func EncodeCursor(list, sortKey string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(list + sortKey))
}

// DecodeCursor returns the sort key in a cursor of the list. ok is false for a cursor of another list and for invalid
// text.
func DecodeCursor(list, cursor string) (sortKey string, ok bool) {
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return "", false
	}
	return strings.CutPrefix(string(decoded), list)
}
