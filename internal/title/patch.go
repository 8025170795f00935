package title

import (
	"bytes"
	"unicode/utf8"
)

// swap is a range of code points that cases.Fold changes although CaseFolding.txt does not list them, with the range to
// replace it by before cases.Fold, so that the result is unchanged.
type swap struct {
	first, last rune
	to          rune // replaces first; the rest follows in order
}

// swaps corrects cases.Fold of golang.org/x/text. Cherokee is the only script whose small letters fold to capitals.
// CaseFolding.txt lists only the small letters (13F8..13FD and AB70..ABBF). cases.Fold folds these correctly, but also
// folds the capitals to small letters, so that the two are swapped and never match. So patch first makes capitals
// small, and cases.Fold makes them capital again. The test over CaseFolding.txt fails if a new version of x/text has
// further differences. This table does no harm after x/text is fixed.
var swaps = [...]swap{
	{first: 0x13A0, last: 0x13EF, to: 0xAB70},
	{first: 0x13F0, last: 0x13F5, to: 0x13F8},
}

// patchLead is the first UTF-8 byte of every code point in swaps.
const patchLead = 0xE1

// patch applies swaps to valid UTF-8. It may change b in place: all code points
// of swaps and their counterparts take three bytes.
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
