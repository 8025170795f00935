package title

import (
	"strings"
	"unicode"
	"unicode/utf8"

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

// unspaced are scripts whose words follow one another, or their particles, without a space. All of them are at U+0E00
// or later.
var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer,
	unicode.Myanmar,
}

// Words returns the words of a text as Search compares them, some several times. A word is a run of letters, marks and
// digits; in a script without spaces between words, each character and each pair of adjacent characters.
func Words(s string) []string {
	if isASCII(s) { // most texts; the same words
		return strings.FieldsFunc(strings.ToLower(strings.ReplaceAll(s, "'", "")), func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < '0' || r > '9')
		})
	}
	var words []string
	for _, run := range strings.FieldsFunc(Search(s), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsNumber(r)
	}) {
		start, previous := 0, -1 // of the rest of the run; of the unspaced character directly before, if there is one
		for i, r := range run {
			if r < '\u0e00' || !unicode.In(r, unspaced...) {
				previous = -1
				continue
			}
			if start < i {
				words = append(words, run[start:i])
			}
			start = i + utf8.RuneLen(r)
			if words = append(words, run[i:start]); previous >= 0 {
				words = append(words, run[previous:start])
			}
			previous = i
		}
		if start < len(run) {
			words = append(words, run[start:])
		}
	}
	return words
}
