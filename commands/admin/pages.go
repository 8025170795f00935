package admin

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"novelgate/internal/web"
)

// pageBytes is the size at which a page takes no further item.
const pageBytes = 512 << 10

// limit returns the requested number of items of a page.
func (c *call) limit() int { return c.query.Limit(50, 500) }

// textCursor returns the text, such as a folded title, after which a page begins; "" for the first page.
func (c *call) textCursor(list string) string {
	after := c.query.Cursor(list)
	if !web.IsText(after) {
		c.query.RefuseCursor()
	}
	return after
}

// idCursor returns the id after which a page begins; uuid.Nil for the first page.
func (c *call) idCursor(list string) uuid.UUID {
	after := c.query.Cursor(list)
	id, ok := web.ParseID(after)
	if !ok && after != "" {
		c.query.RefuseCursor()
	}
	return id
}

// paginate reads a page of a list, unless the query is invalid. list is its name in cursors: a letter and, for a list
// of one integration, the id of the integration. read returns up to limit+1 items. A page of large items is shorter.
func paginate[T any](
	c *call, list string, limit int, sortKey func(T) string, read func() ([]T, error),
) (*web.Answer, error) {
	if err := c.query.Err(); err != nil {
		return nil, err
	}
	items, err := read()
	if err != nil {
		return nil, err
	}
	page := web.Page[jsontext.Value]{Items: []jsontext.Value{}}
	size := 0
	for i, item := range items {
		if i == limit || size >= pageBytes {
			page.NextCursor = new(web.EncodeCursor(list, sortKey(items[i-1])))
			break
		}
		encoded, err := json.Marshal(item)
		if err != nil {
			return nil, fmt.Errorf("encode item of a list: %w", err)
		}
		page.Items = append(page.Items, encoded)
		size += len(encoded)
	}
	return &web.Answer{Body: page}, nil
}
