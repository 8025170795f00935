package title

import (
	"strings"

	"github.com/gosimple/slug"
	"golang.org/x/text/unicode/norm"
)

// MaxLen is the maximum length of a cleaned title in Unicode code points.
const MaxLen = 300

// Clean trims white space from both ends of s and turns each inner run of white space into one U+0020.
func Clean(s string) string {
	return strings.Join(strings.Fields(s), " ") // Fields splits at unicode.IsSpace, which is the property White_Space
}

// maxSlug is the maximum length of a slug in bytes.
const maxSlug = 80

// Slug returns a readable URL path segment for a title: a-z, 0-9, '-' and '_', at most 80 bytes, cut at a word border
// where there is one. It is empty when no character can be transliterated (a title of emoji), and it is not unique.
func Slug(s string) string {
	out := slug.Make(norm.NFC.String(Clean(s)))
	if len(out) <= maxSlug {
		return out
	}
	if cut := strings.LastIndexByte(out[:maxSlug+1], '-'); cut > 0 {
		return strings.TrimRight(out[:cut], "-_")
	}
	return out[:maxSlug]
}
