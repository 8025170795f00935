package admin

import (
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"novelgate/commands/staff"
	"novelgate/internal/httpkit"
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

// limit reads how many items a page has.
func (c *call) limit() int { return c.query.Limit(defaultPage, maxPage) }

// The names of lists in cursors: a letter and, where every integration has such a list, its id. The place in a cursor
// is what the list is ordered by, of the last item of a page.
const (
	novelList       = "t" // by title
	integrationList = "i"
)

func keyList(integrationID uuid.UUID) string    { return "k" + string(integrationID[:]) }
func authorList(integrationID uuid.UUID) string { return "a" + string(integrationID[:]) }

// textCursor reads behind which text, such as a folded title, a page begins, "" for the first page.
func (c *call) textCursor(list string) string {
	after := c.query.Cursor(list)
	if !httpkit.IsText(after) {
		c.query.RefuseCursor()
	}
	return after
}

// placeCursor reads behind which place a page begins.
func (c *call) placeCursor(list string) staff.Place {
	after := c.query.Cursor(list)
	if after == "" {
		return staff.Place{}
	}
	if len(after) != 8+len(uuid.UUID{}) {
		c.query.RefuseCursor()
		return staff.Place{}
	}
	at := time.UnixMicro(int64(binary.BigEndian.Uint64([]byte(after[:8])))) //nolint:gosec // the bits of a signed number
	if at.Year() < 1 || at.Year() > 9999 {
		c.query.RefuseCursor() // the database knows no such time
	}
	return staff.Place{At: at, ID: uuid.UUID([]byte(after[8:]))}
}

// byTitle is behind a novel.
func byTitle(n staff.Novel) string { return n.FoldedTitle }

// byExternalUUID is behind an author.
func byExternalUUID(a staff.Author) string { return a.ExternalUUID }

// byPlace is behind something with a place: microseconds since 1970, big-endian, and an id.
func byPlace[T interface{ Place() staff.Place }](item T) string {
	place := item.Place()
	return string(append(binary.BigEndian.AppendUint64(nil, uint64(place.At.UnixMicro())), place.ID[:]...))
}

// paginate cuts a list that was read with one item more than limit.
func paginate[T any](list string, items []T, limit int, behind func(T) string) page[T] {
	if len(items) <= limit {
		return page[T]{Items: items}
	}
	items = items[:limit]
	cursor := httpkit.EncodeCursor(list, behind(items[limit-1]))
	return page[T]{Items: items, NextCursor: &cursor}
}
