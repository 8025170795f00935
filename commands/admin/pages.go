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
	defaultPage = 50        // items
	maxPage     = 500       // items
	pageBytes   = 512 << 10 // a page of at least this size takes no further item
)

// Names of lists in cursors: a letter and, for a list of one integration, the id of the integration. A cursor also has
// the sort key of the page's last item.
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

// sortKeyCursor returns the sort key after which a page begins.
func (c *call) sortKeyCursor(list string) staff.SortKey {
	after := c.query.Cursor(list)
	if after == "" {
		return staff.SortKey{}
	}
	if len(after) != 8+len(uuid.UUID{}) {
		c.query.RefuseCursor()
		return staff.SortKey{}
	}
	at := time.UnixMicro(int64(binary.BigEndian.Uint64([]byte(after[:8])))) //nolint:gosec // reverses the conversion to uint64
	if at.Year() < 1 || at.Year() > 9999 {
		c.query.RefuseCursor() // outside the range of timestamps in the database
	}
	return staff.SortKey{At: at, ID: uuid.UUID([]byte(after[8:]))}
}

// encodeSortKey encodes the sort key of an item: microseconds since 1970, big-endian, and an id.
func encodeSortKey[T interface{ SortKey() staff.SortKey }](item T) string {
	key := item.SortKey()
	return string(append(binary.BigEndian.AppendUint64(nil, uint64(key.At.UnixMicro())), key.ID[:]...))
}

// limit returns the requested number of items of a page.
func (c *call) limit() int { return c.query.Limit(defaultPage, maxPage) }

// paginate reads a page of a list, unless the query is invalid. read returns up to limit+1 items. A page of large items
// is shorter.
func paginate[T any](
	c *call, list string, limit int, sortKey func(T) string, read func() ([]T, error),
) (*output, error) {
	if err := c.query.Err(); err != nil {
		return nil, err
	}
	items, err := read()
	if err != nil {
		return nil, err
	}
	response := httpkit.Page[jsontext.Value]{Items: []jsontext.Value{}}
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
