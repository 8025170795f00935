package admin

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"novelgate/commands/problem"
	"novelgate/commands/staff"
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
func (c *call) limit() (int, error) {
	text := c.query["limit"]
	if text == "" {
		return defaultPage, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > maxPage {
		return 0, problem.InvalidRequest(problem.FieldError{
			Field: "limit", Message: fmt.Sprintf("must be a number from 1 to %d", maxPage),
		})
	}
	return limit, nil
}

// A cursor is the name of a list and what the list is ordered by, of the last item of a page, in base64url. The name is
// a letter and, where every integration has such a list, its id: the place in one list says nothing about another.
const (
	novelList       = "t" // by title
	integrationList = "i"
)

func keyList(integrationID uuid.UUID) string    { return "k" + string(integrationID[:]) }
func authorList(integrationID uuid.UUID) string { return "a" + string(integrationID[:]) }

// cursor reads behind what a page of a list begins, "" for the first page.
func (c *call) cursor(list string) (behind string, err error) {
	sent := c.query["cursor"]
	if sent == "" {
		return "", nil
	}
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(sent)
	behind, ofList := strings.CutPrefix(string(decoded), list)
	if err != nil || !ofList || behind == "" {
		return "", errCursor()
	}
	return behind, nil
}

func errCursor() error {
	return problem.InvalidRequest(problem.FieldError{
		Field: "cursor", Message: "is not the nextCursor of a page of this list",
	})
}

// textCursor reads behind which text, such as a folded title, a page begins, "" for the first page.
func (c *call) textCursor(list string) (string, error) {
	after, err := c.cursor(list)
	if err == nil && (!utf8.ValidString(after) || strings.ContainsRune(after, 0)) {
		err = errCursor()
	}
	return after, err
}

// placeCursor reads behind which place a page begins.
func (c *call) placeCursor(list string) (staff.Place, error) {
	payload, err := c.cursor(list)
	if err != nil || payload == "" {
		return staff.Place{}, err
	}
	if len(payload) != 8+len(uuid.UUID{}) {
		return staff.Place{}, errCursor()
	}
	at := time.UnixMicro(int64(binary.BigEndian.Uint64([]byte(payload[:8])))) //nolint:gosec // the bits of a signed number
	if at.Year() < 1 || at.Year() > 9999 {
		return staff.Place{}, errCursor() // the database knows no such time
	}
	return staff.Place{At: at, ID: uuid.UUID([]byte(payload[8:]))}, nil
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
	cursor := base64.RawURLEncoding.EncodeToString([]byte(list + behind(items[limit-1])))
	return page[T]{Items: items, NextCursor: &cursor}
}
