package title

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// latin replaces letters of today's Latin alphabets that are a basic letter with more than an accent.
var latin = strings.NewReplacer("æ", "ae", "ɓ", "b", "đ", "d", "ð", "d", "ɖ", "d", "ɗ", "d", "ə", "e", "ɛ", "e",
	"ǝ", "e", "ħ", "h", "ı", "i", "ɩ", "i", "ƙ", "k", "ł", "l", "ŋ", "n", "ø", "o", "ɔ", "o", "œ", "oe", "ŧ", "t",
	"þ", "th", "ʋ", "v", "ƴ", "y", "ʒ", "z")

// Search returns a title or a name as searches compare it and lists sort it: Fold without accents (U+0300 to U+036F),
// without apostrophes, with a space in place of other punctuation, and with basic letters in place of other Latin ones
// and of full-width ones. So "Cafe" finds "Café", "lodz" finds "Łódź", and "clockmakers" finds "The Clockmaker’s
// Apprentice". A text of punctuation alone keeps it.
func Search(s string) string {
	folded := Fold(s)
	plain := strings.Map(func(r rune) rune {
		if r >= '\uff01' && r <= '\uff5e' {
			r -= '\uff01' - '!'
		}
		switch {
		case r >= '\u0300' && r <= '\u036f', r == '\'', r == '\u2018', r == '\u2019', r == '\u02bc':
			return -1
		case unicode.IsPunct(r):
			return ' '
		}
		return r
	}, latin.Replace(norm.NFD.String(folded)))
	if words := strings.Fields(norm.NFC.String(plain)); len(words) > 0 {
		return strings.Join(words, " ")
	}
	return folded
}
