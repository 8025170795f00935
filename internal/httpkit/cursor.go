package httpkit

import (
	"encoding/base64"
	"strings"
)

// Page is one page of a list. NextCursor is null on the last page.
type Page[T any] struct {
	Items      []T     `json:"items"`
	NextCursor *string `json:"nextCursor"`
}

// NewPage returns a page of up to limit of the items. There are more than limit if the page is not the last one. place
// returns where an item stands in the list.
func NewPage[T any](list string, items []T, limit int, place func(*T) string) Page[T] {
	page := Page[T]{Items: items}
	if len(items) > limit {
		page.Items, page.NextCursor = items[:limit], new(EncodeCursor(list, place(&items[limit-1])))
	}
	return page
}

// EncodeCursor returns a cursor for clients: the name of a list, so that a cursor is not used for another list, and a
// sort key in it, in base64url.
func EncodeCursor(list, place string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(list + place))
}

// DecodeCursor returns the sort key in a cursor of the list. ok is false for a cursor of another list and for invalid
// text.
func DecodeCursor(list, cursor string) (place string, ok bool) {
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return "", false
	}
	return strings.CutPrefix(string(decoded), list)
}
