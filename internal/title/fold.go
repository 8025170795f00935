// Package title cleans and compares novel titles, and makes slugs from them.
//
// Two titles name the same novel when their Fold is equal. Fold is the canonical caseless match of the Unicode Standard
// (section 3.13, definition D145) on the cleaned title without the characters that Unicode calls default-ignorable:
// white space trimmed and collapsed, then NFD, full case folding (status C and F of CaseFolding.txt), NFC. Accents,
// punctuation and compatibility forms (full-width letters, ligatures without case folding) distinguish titles.
//
// White space is exactly the characters with the Unicode property White_Space. Default-ignorable characters have the
// property Default_Ignorable_Code_Point: zero-width characters, soft hyphens, direction marks, variation selectors,
// fillers. Nobody can tell a title with them from one without, so they do not make another novel.
//
// x/text inserts U+034F into runs of more than 30 combining marks (the Stream-Safe Text Format of UAX #15). Only inside
// such runs may two canonically equivalent spellings have different folded titles.
package title

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"
)

// Fold returns the folded title, under which a title is looked up: without default-ignorable characters, Clean, NFD,
// full case folding, NFC. Fold(Fold(s)) equals Fold(s). Invalid UTF-8 becomes U+FFFD.
func Fold(s string) string {
	if isASCII(s) { // most titles; the same result
		return strings.ToLower(Clean(s))
	}
	// White space around an ignorable character is one run, so it is cleaned afterwards.
	s = Clean(strings.Map(dropIgnorable, strings.ToValidUTF8(s, "\uFFFD")))
	decomposed := norm.NFD.AppendString(make([]byte, 0, 2*len(s)), s)
	corrected := patch(decomposed)
	folded, _, err := transform.Append(cases.Fold(), make([]byte, 0, 2*len(corrected)), corrected)
	if err != nil {
		// The folder fails only on incomplete UTF-8, which was replaced above.
		return norm.NFC.String(s)
	}
	return string(norm.NFC.Bytes(folded))
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// swap is a range of code points that cases.Fold changes although CaseFolding.txt does not list them. patch replaces
// them by the range that begins with to, and cases.Fold changes this range back.
type swap struct {
	first, last rune
	to          rune // replaces first; the code points after first are replaced in order
}

// swaps corrects cases.Fold of golang.org/x/text. Cherokee is the only script whose small letters fold to capitals.
// CaseFolding.txt lists only the small letters (13F8..13FD and AB70..ABBF). cases.Fold folds these correctly, but also
// folds the capitals to small letters, so that the two are swapped and never match. Therefore patch first makes the
// capitals small, and cases.Fold makes them capital again. The test over CaseFolding.txt fails if a new version of
// x/text has further differences. The table does no harm after x/text is fixed.
var swaps = [...]swap{
	{first: 0x13A0, last: 0x13EF, to: 0xAB70},
	{first: 0x13F0, last: 0x13F5, to: 0x13F8},
}

// patchLead is the first UTF-8 byte of every code point in swaps.
const patchLead = 0xE1

// patch applies swaps to valid UTF-8 in place: all code points of swaps and their replacements take three bytes.
func patch(b []byte) []byte {
	for i := 0; i < len(b); {
		j := bytes.IndexByte(b[i:], patchLead)
		if j < 0 {
			break
		}
		i += j
		r, n := utf8.DecodeRune(b[i:])
		for _, s := range swaps {
			if s.first <= r && r <= s.last {
				utf8.EncodeRune(b[i:], s.to+(r-s.first))
			}
		}
		i += n
	}
	return b
}
