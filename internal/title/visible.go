package title

import (
	"strings"
	"unicode"
)

// isIgnorable reports whether a character has the property Default_Ignorable_Code_Point, by its derivation in UAX #44.
func isIgnorable(r rune) bool {
	const firstIgnorable = 0xAD
	return r >= firstIgnorable &&
		unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) &&
		!unicode.In(r, unicode.White_Space, unicode.Prepended_Concatenation_Mark) &&
		(r < 0xFFF9 || r > 0xFFFB) && // annotations between lines
		(r < 0x13430 || r > 0x13440) // joiners of hieroglyphs
}

func dropIgnorable(r rune) rune {
	if isIgnorable(r) {
		return -1
	}
	return r
}

// HasVisible reports whether a text has a character that a reader sees: neither white space, nor a control or format
// character, nor one of those that are drawn as nothing.
func HasVisible(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool {
		switch r {
		case 0x2800, // BRAILLE PATTERN BLANK
			0x16FE4, // KHITAN SMALL SCRIPT FILLER
			0x1D159: // MUSICAL SYMBOL NULL NOTEHEAD
			return false
		}
		return !unicode.IsSpace(r) && !isIgnorable(r) && !unicode.IsControl(r) &&
			(!unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Prepended_Concatenation_Mark, r))
	})
}
