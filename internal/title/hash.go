package title

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// algorithm is the version of Fold. TableHash folds code points one by one: increase algorithm when Fold changes only
// for titles of several code points.
const algorithm = 2

// chunk is the number of code points that TableHash folds at a time.
const chunk = 1024

// spans covers every code point that can have a decomposition or a case folding: all except ideographs, Hangul
// syllables (composed by arithmetic, not by table) and private use.
var spans = [...][2]rune{{0, 0x33FF}, {0xA000, 0xABFF}, {0xF900, 0x1FFFF}, {0x2F800, 0x2FA1F}}

// TableHash returns a hexadecimal digest that changes when Fold may change a folded title. It covers algorithm, the
// versions of all Unicode tables in use, swaps, and the result of Fold for every code point that has a decomposition or
// a case folding. The database stores the hash under which its titles were folded. The first call takes some
// milliseconds; later calls return the same value.
func TableHash() string { return tableHash() }

var tableHash = sync.OnceValue(func() string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "novelgate title fold %d, norm %s, cases %s, unicode %s, swaps %x\n",
		algorithm, norm.Version, cases.UnicodeVersion, unicode.Version, swaps)
	for _, span := range spans {
		for r := span[0]; r <= span[1]; r += chunk {
			_, _ = h.Write([]byte(Fold(codePoints(r, min(r+chunk-1, span[1])))))
		}
	}
	return hex.EncodeToString(h.Sum(nil))
})

// codePoints returns the code points from first to last, each with a full stop, so that neighbours neither compose nor
// collapse.
func codePoints(first, last rune) string {
	b := make([]byte, 0, 5*chunk)
	for r := first; r <= last; r++ {
		if utf8.ValidRune(r) {
			b = append(utf8.AppendRune(b, r), '.')
		}
	}
	return string(b)
}
