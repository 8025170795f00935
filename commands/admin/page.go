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
		return 0, problem.InvalidRequest(problem.FieldError{Field: "limit", Message: fmt.Sprintf("must be a number from 1 to %d", maxPage)})
	}
	return limit, nil
}

// A cursor is what a list is ordered by, of the last item of a page, behind a byte that tells the kinds apart, in
// base64url.
const (
	titleCursor  = 't' // a folded title
	authorCursor = 'a' // a partner's identifier of an author
	placeCursor  = 'p' // microseconds since 1970, big-endian, and an id
)

// cursor reads what follows the kind in a cursor, "" for that of the first page.
func (c *call) cursor(kind byte) (payload string, first bool, err error) {
	sent := c.query["cursor"]
	if sent == "" {
		return "", true, nil
	}
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(sent)
	if err != nil || len(decoded) < 2 || decoded[0] != kind {
		return "", false, errCursor()
	}
	return string(decoded[1:]), false, nil
}

func errCursor() error {
	return problem.InvalidRequest(problem.FieldError{Field: "cursor", Message: "is not the nextCursor of a page of this list"})
}

// textCursor reads behind which text, such as a folded title, a page begins, "" for the first page.
func (c *call) textCursor(kind byte) (string, error) {
	after, _, err := c.cursor(kind)
	if err == nil && (!utf8.ValidString(after) || strings.ContainsRune(after, 0)) {
		err = errCursor()
	}
	return after, err
}

// placeCursor reads behind which place a page begins.
func (c *call) placeCursor() (staff.Place, error) {
	payload, first, err := c.cursor(placeCursor)
	if err != nil || first {
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

// byTitle makes the cursor behind a novel.
func byTitle(n staff.Novel) []byte { return append([]byte{titleCursor}, n.FoldedTitle...) }

// byExternalUUID makes the cursor behind an author.
func byExternalUUID(a staff.Author) []byte { return append([]byte{authorCursor}, a.ExternalUUID...) }

// byPlace makes the cursor behind something with a place.
func byPlace[T interface{ Place() staff.Place }](item T) []byte {
	place := item.Place()
	cursor := binary.BigEndian.AppendUint64([]byte{placeCursor}, uint64(place.At.UnixMicro()))
	return append(cursor, place.ID[:]...)
}

// paginate cuts a list that was read with one item more than limit.
func paginate[T any](items []T, limit int, behind func(T) []byte) page[T] {
	if len(items) <= limit {
		return page[T]{Items: items}
	}
	items = items[:limit]
	cursor := base64.RawURLEncoding.EncodeToString(behind(items[limit-1]))
	return page[T]{Items: items, NextCursor: &cursor}
}
