package title_test

import (
	"bufio"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"novelgate/internal/title"
)

func TestFold(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ in, want string }{
		"empty":                {"", ""},
		"own key":              {"the wandering inn", "the wandering inn"},
		"ascii capitals":       {"The Wandering INN", "the wandering inn"},
		"white space":          {" \t The  Wandering\r\nInn\v\f", "the wandering inn"},
		"white space alone":    {" \t\n", ""},
		"one space":            {" ", ""},
		"no-break space":       {"The\u00a0Inn\u3000\u2003Keeper\u0085", "the inn keeper"},
		"zero width":           {"\ufeffa\u200b b\u2060", "a b"},
		"between white space":  {"a \u200b b\u3000\u200e", "a b"},
		"soft hyphen":          {"A\u00adB", "ab"},
		"direction marks":      {"\u202eAb\u202c\u061c", "ab"},
		"variation selector":   {"\u2764\ufe0f \u845b\U000e0100", "\u2764 \u845b"},
		"fillers":              {"\u3164A\uffa0\u115f", "a"},
		"joiner in an emoji":   {"\U0001f469\u200d\U0001f4bb", "\U0001f469\U0001f4bb"},
		"before an accent":     {"e\u200b\u0301", "\u00e9"},
		"ignorable alone":      {"\u200b\u200d", ""},
		"sharp s":              {"Maße MASSE ẞ", "masse masse ss"},
		"ligature":             {"ﬁn", "fin"},
		"final sigma":          {"ΟΔΥΣΣΕΥΣ ς", "οδυσσευσ σ"},
		"dotted I":             {"İstanbul", "i̇stanbul"},
		"dotless i counts":     {"ıstanbul", "ıstanbul"},
		"accent counts":        {"Café", "café"},
		"decomposed":           {"CAFE\u0301", "café"},
		"Kelvin and Angstrom":  {"\u212a \u212b", "k å"},
		"iota subscript":       {"ᾳ ᾼ ΑΙ", "αι αι αι"},
		"marks out of order":   {"Q\u0307\u0323", "q\u0323\u0307"},
		"Cherokee":             {"ᎠᎡꭰꭱ Ᏸᏸ", "ᎠᎡᎠᎡ ᏰᏰ"},
		"Cherokee capital":     {"\u13a0", "\u13a0"},
		"Cherokee small":       {"\uab70", "\u13a0"},
		"Cherokee capital ye":  {"\u13f0", "\u13f0"},
		"Cherokee small ye":    {"\u13f8", "\u13f0"},
		"Deseret":              {"𐐀", "𐐨"},
		"Hangul":               {"\u1112\u1161\u11ab", "한"},
		"full-width counts":    {"ＡＢＣ", "ａｂｃ"},
		"CJK":                  {"斗破苍穹", "斗破苍穹"},
		"invalid UTF-8":        {"A\xff\xc3", "a\ufffd"},
		"punctuation counts":   {"Re:Zero", "re:zero"},
		"compatibility kanji":  {"\uf900", "\u8c48"},
		"combining mark alone": {"\u0301A", "\u0301a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := title.Fold(tc.in); got != tc.want {
				t.Errorf("Fold(%q) = %q, want %q", tc.in, got, tc.want)
			}
		})
	}
}

// caseFolding yields the C and F lines of CaseFolding.txt (Unicode 15.0.0).
// Foldings of assigned code points never change (the Unicode stability policy).
func caseFolding(t *testing.T) map[rune]string {
	t.Helper()
	f, err := os.Open("testdata/CaseFolding.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()

	pairs := map[rune]string{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Split(line, ";")
		if len(fields) < 3 {
			continue
		}
		if status := strings.TrimSpace(fields[1]); status != "C" && status != "F" {
			continue
		}
		var to strings.Builder
		for _, code := range strings.Fields(fields[2]) {
			to.WriteRune(codePoint(t, code))
		}
		pairs[codePoint(t, strings.TrimSpace(fields[0]))] = to.String()
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return pairs
}

func codePoint(t *testing.T, hex string) rune {
	t.Helper()
	n, err := strconv.ParseInt(hex, 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	return rune(n)
}

func TestFoldEveryPairOfCaseFolding(t *testing.T) {
	t.Parallel()
	pairs := caseFolding(t)
	if got, want := len(pairs), 1530; got != want {
		t.Fatalf("CaseFolding.txt has %d pairs, want %d", got, want)
	}
	for from, to := range pairs {
		for _, around := range []string{"", "a", "Σ", "x\u0345 "} {
			in, match := around+string(from)+"b", around+to+"b"
			if got, want := title.Fold(in), title.Fold(match); got != want {
				t.Errorf("Fold(%+q) = %+q, Fold(%+q) = %+q: %U does not match", in, got, match, want, from)
			}
		}
		// An implementation of the standard without Fold's tables.
		want := norm.NFC.String(foldBy(pairs, norm.NFD.String(string(from))))
		if got := title.Fold(string(from)); got != want {
			t.Errorf("Fold(%U) = %+q, want %+q", from, got, want)
		}
	}
}

// ignorable has the ranges of Default_Ignorable_Code_Point in DerivedCoreProperties.txt (Unicode 15.0.0).
var ignorable = [][2]rune{
	{0xAD, 0xAD},
	{0x34F, 0x34F},
	{0x61C, 0x61C},
	{0x115F, 0x1160},
	{0x17B4, 0x17B5},
	{0x180B, 0x180F},
	{0x200B, 0x200F},
	{0x202A, 0x202E},
	{0x2060, 0x206F},
	{0x3164, 0x3164},
	{0xFE00, 0xFE0F},
	{0xFEFF, 0xFEFF},
	{0xFFA0, 0xFFA0},
	{0xFFF0, 0xFFF8},
	{0x1BCA0, 0x1BCA3},
	{0x1D173, 0x1D17A},
	{0xE0000, 0xE0FFF},
}

func isIgnorable(r rune) bool {
	return slices.ContainsFunc(ignorable, func(span [2]rune) bool { return span[0] <= r && r <= span[1] })
}

// TestFoldNothingElse: a code point that is neither in CaseFolding.txt nor ignorable stays unchanged, apart from
// normalisation.
func TestFoldNothingElse(t *testing.T) {
	t.Parallel()
	pairs := caseFolding(t)
	for r := rune('!'); r <= utf8.MaxRune; r++ {
		if !utf8.ValidRune(r) || strings.TrimSpace(string(r)) == "" {
			continue
		}
		want := norm.NFC.String(foldBy(pairs, norm.NFD.String(string(r))))
		if isIgnorable(r) {
			want = ""
		}
		if got := title.Fold(string(r)); got != want {
			t.Errorf("Fold(%U) = %+q, want %+q", r, got, want)
		}
	}
}

func TestHasVisible(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", " \t\u3000", "\u200b", "\ufeff\u00ad", "\u2800\u2800", "\u3164", "\u115f\u1160", "\ufe0f", "\x00\x1f\u0085",
		"\ufff9\ufffb", "\U000e0041", "\u202e\u202c", "\U0001d159",
	} {
		if title.HasVisible(s) {
			t.Errorf("HasVisible(%+q) = true", s)
		}
	}
	for _, s := range []string{
		"a", " .", "\u200b\u4e2d", "\u0301", "\U0001f469\u200d\U0001f4bb", "\u0600", "\ufffd", "\u2801",
	} {
		if !title.HasVisible(s) {
			t.Errorf("HasVisible(%+q) = false", s)
		}
	}
}

func foldBy(pairs map[rune]string, s string) string {
	var b strings.Builder
	for _, r := range s {
		if to, ok := pairs[r]; ok {
			b.WriteString(to)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// text draws strings from alphabets in which folding and normalisation meet.
func text() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		alphabet := []rune(
			" \t\u00a0\u200b.aAbBiIİıßẞſςσΣﬁµÅÅåéÉ\u0300\u0301\u0307\u0308\u0323\u0345ᾳᾼΐΰǰŉᎠꭰᏰᏸ한\u1112\u1161\u11abK\uf900𐐀𐐨")
		if rapid.Bool().Draw(t, "any") {
			return rapid.StringN(-1, 20, -1).Draw(t, "text")
		}
		return string(rapid.SliceOfN(rapid.SampledFrom(alphabet), 0, 20).Draw(t, "text"))
	})
}

func TestFoldProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := text().Draw(t, "s")
		checkFold(t, s)
	})
}

// checkFold fails when a property of Fold does not hold for s.
func checkFold(t interface {
	Errorf(format string, args ...any)
}, s string,
) {
	key := title.Fold(s)
	if again := title.Fold(key); again != key {
		t.Errorf("Fold is not idempotent on %+q: %+q, then %+q", s, key, again)
	}
	if got := title.Fold(title.Clean(s)); got != key {
		t.Errorf("Clean changes the key of %+q: %+q, was %+q", s, got, key)
	}
	if got := title.Clean(key); got != key {
		t.Errorf("the key %+q of %+q is not clean", key, s)
	}
	if !norm.NFC.IsNormalString(key) || !utf8.ValidString(key) {
		t.Errorf("the key %+q of %+q is not valid NFC", key, s)
	}
	if !utf8.ValidString(s) || longMarks(s) {
		return
	}
	for form, equivalent := range map[string]string{"NFC": norm.NFC.String(s), "NFD": norm.NFD.String(s)} {
		if got := title.Fold(equivalent); got != key {
			t.Errorf("%s of %+q has another key: %+q, was %+q", form, s, got, key)
		}
	}
}

// longMarks reports a run of combining marks long enough for x/text to break it.
func longMarks(s string) bool {
	run := 0
	for _, r := range norm.NFD.String(s) {
		if r == 0x034F {
			return true
		}
		if norm.NFD.PropertiesString(string(r)).CCC() == 0 {
			run = 0
		} else if run++; run > 30 {
			return true
		}
	}
	return false
}

func FuzzFold(f *testing.F) {
	for _, seed := range []string{
		"The Wandering Inn", " a\u0301\u0345 ", "Ꭰꭰ", "İ", "\xff\xc3", "e" + strings.Repeat("\u0301\u0323", 40),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		checkFold(t, s)
		if slug := title.Slug(s); len(slug) > 80 {
			t.Errorf("Slug(%q) has %d bytes", s, len(slug))
		}
	})
}

// TestTableHash pins the hash for each version of the Unicode tables. A failure
// means that stored folded titles may no longer match: every database refolds its
// titles once when the new version starts. If that is intended, pin the new hash.
func TestTableHash(t *testing.T) {
	t.Parallel()
	pinned := map[string]string{
		"15.0.0": "49509067be809b0b1dec23ae0de5db73d29a8d6d4ec1aaa1108640a6ea08ae9c",
	}
	if got, want := title.TableHash(), pinned[cases.UnicodeVersion]; got != want {
		t.Errorf("with Unicode %s TableHash() = %q, pinned %q", cases.UnicodeVersion, got, want)
	}
}
