package request

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// text returns the string member i if it is present and free of NUL.
func (o *object) text(i int, required bool) (string, bool) {
	raw, ok := o.value(i, '"', required)
	if !ok {
		return "", false
	}
	s := unquote(raw)
	if hasNUL(s) {
		o.fail(i, "%s", withoutNUL)
		return "", false
	}
	return s, true
}

// NUL is the one character that PostgreSQL cannot store in text.
const withoutNUL = "must not contain the character NUL (U+0000)"

func hasNUL(s string) bool { return strings.IndexByte(s, 0) >= 0 }

// unquote decodes a string that the decoder has found valid.
func unquote(quoted jsontext.Value) string {
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	s, err := jsontext.AppendUnquote(make([]byte, 0, len(quoted)), quoted)
	if err != nil {
		// The decoder refuses what AppendUnquote would replace.
		return strings.ToValidUTF8(string(s), "\uFFFD")
	}
	return string(s)
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
		return fmt.Sprintf("must have %d to %s characters, got an empty or blank string", low, thousands(high))
	case low == 0:
		return fmt.Sprintf("must have at most %s characters, got %s", thousands(high), thousands(n))
	default:
		return fmt.Sprintf("must have %d to %s characters, got %s", low, thousands(high), thousands(n))
	}
}

// isBlank reports that s has nothing but white space.
func isBlank(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !unicode.IsSpace(r) }) < 0
}

// clip shortens what a message quotes from the request.
func clip(s string) string {
	const limit = 40
	n := 0
	for i := range s {
		if n++; n > limit {
			return s[:i] + "…"
		}
	}
	return s
}

// thousands writes n with separators: 20,000.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
