package title

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Search returns a title or a name as a search compares it: Fold without accents (U+0300 to U+036F), without
// apostrophes, and with a space in place of other punctuation. So "Cafe" finds "Café", and "clockmakers" finds
// "The Clockmaker’s Apprentice". A text of punctuation alone keeps it.
func Search(s string) string {
	folded := Fold(s)
	plain := strings.Map(func(r rune) rune {
		switch {
		case r >= '\u0300' && r <= '\u036f', r == '\'', r == '\u2018', r == '\u2019', r == '\u02bc':
			return -1
		case unicode.IsPunct(r):
			return ' '
		}
		return r
	}, norm.NFD.String(folded))
	if words := strings.Fields(norm.NFC.String(plain)); len(words) > 0 {
		return strings.Join(words, " ")
	}
	return folded
}
