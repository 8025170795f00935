package request

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"novelgate/internal/httpkit"
)

// object is a body with the text rules that all commands share.
type object struct{ httpkit.Object }

// wantLength records an error unless s has low to high characters.
func (o *object) wantLength(field, s string, low, high int) {
	if wrong := between(s, low, high); wrong != "" {
		o.Fail(field, "%s", wrong)
	}
}

// wantWords records an error unless s has 1 to high characters and is not blank. It returns false for a blank s.
func (o *object) wantWords(field, s string, high int) bool {
	if isBlank(s) {
		o.Fail(field, "must have 1 to %s characters, got an empty or blank string", httpkit.Thousands(high))
		return false
	}
	o.wantLength(field, s, 1, high)
	return true
}

// between returns the error text for s unless s has low to high characters; then "".
func between(s string, low, high int) string {
	if len(s) >= low && len(s) <= high && low <= 1 {
		return "" // fast path: a string has at most as many characters as bytes
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

// isBlank reports whether s has only white space.
func isBlank(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !unicode.IsSpace(r) }) < 0
}
