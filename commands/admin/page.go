package admin

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"novelgate/commands/staff"
	"novelgate/internal/httpkit"
)

// The sizes of pages.
const (
	defaultPage = 50
	maxPage     = 500
)

// page is one page of a list. NextCursor is null on the last page.
type page struct {
	Items      []jsontext.Value `json:"items"`
	NextCursor *string          `json:"nextCursor"`
}

// limit returns the requested number of items of a page.
func (c *call) limit() int { return c.query.Limit(defaultPage, maxPage) }

// The names of lists in cursors: a letter and, for a list of one integration, its id. The place in a cursor is the sort
// key of the page's last item.
const (
	novelList       = "t" // by title
	integrationList = "i"
)

func keyList(integrationID uuid.UUID) string    { return "k" + string(integrationID[:]) }
func authorList(integrationID uuid.UUID) string { return "a" + string(integrationID[:]) }

// textCursor returns the text, such as a folded title, after which a page begins; "" for the first page.
func (c *call) textCursor(list string) string {
	after := c.query.Cursor(list)
	if !httpkit.IsText(after) {
		c.query.RefuseCursor()
	}
	return after
}

// placeCursor returns the place after which a page begins.
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
		c.query.RefuseCursor() // outside the range of timestamps in the database
	}
	return staff.Place{At: at, ID: uuid.UUID([]byte(after[8:]))}
}

// byTitle returns the sort key of a novel.
func byTitle(n staff.Novel) string { return n.FoldedTitle }

// byExternalUUID returns the sort key of an author.
func byExternalUUID(a staff.Author) string { return a.ExternalUUID }

// byPlace returns the sort key of an item with a place: microseconds since 1970, big-endian, and an id.
func byPlace[T interface{ Place() staff.Place }](item T) string {
	place := item.Place()
	return string(append(binary.BigEndian.AppendUint64(nil, uint64(place.At.UnixMicro())), place.ID[:]...))
}

// pageBytes is the size at which a page is full.
const pageBytes = 512 << 10

// paginate encodes a page of a list. items holds up to limit+1 items. A page of large items is shorter.
func paginate[T any](list string, items []T, limit int, sortKey func(T) string) (*output, error) {
	response := page{Items: []jsontext.Value{}}
	size := 0
	for i, item := range items {
		if i == limit || size >= pageBytes {
			cursor := httpkit.EncodeCursor(list, sortKey(items[i-1]))
			response.NextCursor = &cursor
			break
		}
		encoded, err := json.Marshal(item)
		if err != nil {
			return nil, fmt.Errorf("encode item of a list: %w", err)
		}
		response.Items = append(response.Items, encoded)
		size += len(encoded)
	}
	return &output{status: http.StatusOK, body: response}, nil
}
