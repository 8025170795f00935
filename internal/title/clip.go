package title

import (
	"cmp"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Clip shortens s to limit characters and an ellipsis.
func Clip(s string, limit int) string {
	if begin := Begin(s, limit); len(begin) < len(s) {
		return begin + "…"
	}
	return s
}

// characterBytes times the limit of characters is the maximum length of Begin in bytes. A family of four has 25 bytes.
const characterBytes = 32

// Begin returns the beginning of s, of at most limit characters as readers see them: grapheme clusters (UAX #29), such
// as a letter with its accents, or a flag. A character may have any number of marks, so Begin also returns at most 32
// bytes for each character of the limit; it cuts a character only if s begins with one that is longer than that.
func Begin(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	n := min(len(s), characterBytes*limit)
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	end := 0
	for state, rest := -1, s[:n]; limit > 0 && rest != ""; limit-- {
		var character string
		character, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if rest == "" && n < len(s) { // it may go on
			return s[:cmp.Or(end, n)]
		}
		end += len(character)
	}
	return s[:end]
}
