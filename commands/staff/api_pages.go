package staff

import (
	"github.com/google/uuid"

	"novelgate/internal/web"
)

// limit returns the requested number of items of a page, which may have 30 KB each.
func (c *call) limit() int { return c.query.Limit(50, 100) }

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
// of one integration, the id of the integration. read returns up to limit+1 items.
func paginate[T any](
	c *call, list string, limit int, sortKey func(*T) string, read func() ([]T, error),
) (*web.Answer, error) {
	if err := c.query.Err(); err != nil {
		return nil, err
	}
	items, err := read()
	return &web.Answer{Body: web.NewPage(list, items, limit, sortKey)}, err
}
