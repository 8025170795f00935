package request

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"novelgate/internal/title"
	"novelgate/internal/web"
)

// MaxBody is the largest body of a command, in bytes (SPEC section 8).
const MaxBody = 32 << 10

// object is a body with the text rules that all commands share.
type object struct{ web.Object }

// The values of the argument of web.Object.Text that says whether the member is required.
const (
	required = true
	optional = false
)

// required reads and cleans a text, and checks it. check returns the error text, "" for a valid text.
func (o *object) required(name string, clean, check func(string) string) string {
	s, ok := o.Text(name, required)
	if ok {
		s = clean(s)
		o.refuse(name, check(s))
	}
	return s
}

// optional reads and cleans a text that may be omitted, and checks it as required does. It returns nil for an omitted
// text.
func (o *object) optional(name string, clean, check func(string) string) *string {
	s, ok := o.Text(name, optional)
	if !ok {
		return nil
	}
	s = clean(s)
	o.refuse(name, check(s))
	return &s
}

// refuse records the error text of a field, unless it is "".
func (o *object) refuse(field, wrong string) {
	if wrong != "" {
		o.Fail(field, "%s", wrong)
	}
}

func asSent(s string) string { return s }

// length returns a check for texts of low to high characters.
func length(low, high int) func(string) string {
	return func(s string) string { return checkLength(s, low, high) }
}

// visible returns a check for texts of 1 to high characters that a reader sees.
func visible(high int) func(string) string {
	return func(s string) string { return checkVisible(s, high) }
}

// checkVisible returns the error text for s, "" if s has 1 to high characters and one of them is visible.
func checkVisible(s string, high int) string {
	if wrong := notBlank(high)(s); wrong != "" || title.HasVisible(s) {
		return wrong
	}
	return fmt.Sprintf("must have a visible character, got %d that are invisible", utf8.RuneCountInString(s))
}

// notBlank returns a check for texts of up to high characters that are not blank.
func notBlank(high int) func(string) string {
	return func(s string) string {
		if strings.TrimSpace(s) == "" {
			return checkLength("", 1, high)
		}
		return checkLength(s, 1, high)
	}
}

// checkLength returns the error text for s, "" if s has low to high characters.
func checkLength(s string, low, high int) string {
	if len(s) >= low && len(s) <= high && low <= 1 {
		return "" // fast path: a string has at most as many characters as bytes
	}
	n := utf8.RuneCountInString(s)
	switch {
	case low <= n && n <= high:
		return ""
	case n == 0:
		return fmt.Sprintf("must have %d to %s characters, got an empty or blank string", low, web.Thousands(high))
	case low == 0:
		return fmt.Sprintf("must have at most %s characters, got %s", web.Thousands(high), web.Thousands(n))
	default:
		return fmt.Sprintf("must have %d to %s characters, got %s", low, web.Thousands(high), web.Thousands(n))
	}
}

// Canonical returns the normalised form of a command for fingerprints: the title folded, everything else as stored. The
// bytes may change when title.TableHash changes.
func (n Novel) Canonical() []byte {
	c := appendFields([]byte("novel.v1"), &n.FoldedTitle, n.Author, n.Synopsis, n.CoverURL, n.Language, n.ReadingStatus)
	if n.Genres == nil {
		return c
	}
	for i := range *n.Genres {
		c = appendFields(c, &(*n.Genres)[i])
	}
	return append(c, "genres"...) // keeps an empty list apart from an omitted one
}

// Canonical returns the normalised form of a command, like that of Novel. It omits a timestamp that was not sent, so
// that a retry has the same bytes.
func (p Post) Canonical() []byte {
	var sent *string
	if p.TimestampGiven {
		at := p.WrittenAt.Format(time.RFC3339Nano)
		sent = &at
	}
	return appendFields([]byte("post.v1"), &p.AuthorUUID, &p.Username, &p.FoldedTitle, &p.Content, (*string)(p.Chapter),
		sent, p.ParentKey)
}

// appendFields appends texts with their lengths, which keep apart what two fields hold, and nil as a byte that begins
// no text.
func appendFields(b []byte, fields ...*string) []byte {
	for _, field := range fields {
		if field == nil {
			b = append(b, 0)
			continue
		}
		b = binary.AppendUvarint(append(b, 1), uint64(len(*field)))
		b = append(b, *field...)
	}
	return b
}
