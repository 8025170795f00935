package request

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"novelgate/internal/httpkit"
)

// object is a body with the rules on text that the fields of commands share.
type object struct{ httpkit.Object }

// wantLength records that s must have low to high characters.
func (o *object) wantLength(field, s string, low, high int) {
	if wrong := between(s, low, high); wrong != "" {
		o.Fail(field, "%s", wrong)
	}
}

// wantWords records that s must have 1 to high characters, some of which are no white space. It reports whether s has
// any.
func (o *object) wantWords(field, s string, high int) bool {
	if isBlank(s) {
		o.Fail(field, "must have 1 to %s characters, got an empty or blank string", httpkit.Thousands(high))
		return false
	}
	o.wantLength(field, s, 1, high)
	return true
}

// between says in words that s must have low to high characters, "" when it has.
func between(s string, low, high int) string {
	if len(s) >= low && len(s) <= high && low <= 1 {
		return "" // no string has more characters than bytes
	}
	n := utf8.RuneCountInString(s)
	switch {
	case low <= n && n <= high:
		return ""
	case n == 0:
		return fmt.Sprintf("must have %d to %s characters, got an empty or blank string", low, httpkit.Thousands(high))
	case low == 0:
		return fmt.Sprintf("must have at most %s characters, got %s", httpkit.Thousands(high), httpkit.Thousands(n))
	default:
		return fmt.Sprintf("must have %d to %s characters, got %s", low, httpkit.Thousands(high), httpkit.Thousands(n))
	}
}

// isBlank reports that s has nothing but white space.
func isBlank(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !unicode.IsSpace(r) }) < 0
}
