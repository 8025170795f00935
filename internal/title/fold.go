package title

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"
)

// Fold returns the look-up key of a title: Clean, NFD, full case folding, NFC. Fold(Fold(s)) equals Fold(s). An ASCII
// title that is its own key is returned unchanged, without an allocation. Invalid UTF-8 becomes U+FFFD.
func Fold(s string) string {
	switch scanASCII(s) {
	case asciiFolded:
		return s
	case asciiMixed:
		return foldASCII(s)
	case notASCII:
	}
	return foldUnicode(s)
}

// asciiScan is the result of scanASCII.
type asciiScan int

const (
	notASCII    asciiScan = iota
	asciiMixed            // ASCII with capitals, or white space to clean
	asciiFolded           // ASCII that is its own key
)

func scanASCII(s string) asciiScan {
	found := asciiFolded
	space := true
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= utf8.RuneSelf:
			return notASCII
		case c == ' ':
			if space {
				found = asciiMixed
			}
			space = true
			continue
		case 'A' <= c && c <= 'Z', '\t' <= c && c <= '\r':
			found = asciiMixed
		}
		space = false
	}
	if space && s != "" {
		return asciiMixed
	}
	return found
}

func foldASCII(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	space := false
	for i := range len(s) {
		c := s[i]
		if c == ' ' || '\t' <= c && c <= '\r' {
			space = b.Len() > 0
			continue
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		b.WriteByte(c)
	}
	return b.String()
}

func foldUnicode(s string) string {
	s = Clean(strings.ToValidUTF8(s, "\uFFFD"))
	decomposed := norm.NFD.AppendString(make([]byte, 0, 2*len(s)), s)
	corrected := patch(decomposed)
	folded, _, err := transform.Append(cases.Fold(), make([]byte, 0, 2*len(corrected)), corrected)
	if err != nil {
		// The folder fails only on incomplete UTF-8, which was replaced above.
		return norm.NFC.String(s)
	}
	return string(norm.NFC.Bytes(folded))
}
