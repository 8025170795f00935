package title

import (
	"bytes"
	"unicode/utf8"
)

// swap is a range of code points that cases.Fold moves although CaseFolding.txt
// does not list them, together with where the range has to stand before cases.Fold
// so that it comes out unchanged.
type swap struct {
	first, last rune
	to          rune // stands for first; the rest follows in order
}

// swaps corrects cases.Fold of golang.org/x/text. Cherokee is the one script whose
// small letters fold to the capitals. CaseFolding.txt lists the small letters only
// (13F8..13FD and AB70..ABBF); cases.Fold folds these as it should, but sends the
// capitals to the small letters as well, so that the two change places and never
// match. Capitals are therefore made small first, and cases.Fold makes them capital
// again. The test over CaseFolding.txt tells when a new version of x/text has
// further differences; this table does no harm once this one is gone.
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
