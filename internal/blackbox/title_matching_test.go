package blackbox_test

import (
	"strings"
	"testing"

	"novelgate/internal/blackbox"
)

// matches returns pairs of spellings of one title.
func matches() map[string][2]string {
	return map[string][2]string{
		"letter case":              {"The CLOCKMAKER's apprentice", "the clockmaker's APPRENTICE"},
		"Latin beyond ASCII":       {"ÉTÉ ÀÇÑ", "été àçñ"},
		"sharp s":                  {"Straße", "STRASSE"},
		"capital sharp s":          {"STRAẞE", "strasse"},
		"final sigma":              {"ΟΔΥΣΣΕΥΣ", "οδυσσευς"},
		"final and medial sigma":   {"οδυσσευς", "οδυσσευσ"},
		"iota subscript":           {"\u1fb3\u03b4", "\u03b1\u03b9\u03b4"},
		"Cyrillic":                 {"ВОЙНА И МИР", "война и мир"},
		"Armenian ligature":        {"և", "եւ"},
		"Cherokee":                 {"ᎠᎡᎢ", "ꭰꭱꭲ"},
		"Georgian":                 {"ᲐᲑᲒ", "აბგ"},
		"Deseret, beyond the BMP":  {"\U00010400\U00010401", "\U00010428\U00010429"},
		"dotted I is i and a dot":  {"\u0130stanbul", "i\u0307stanbul"},
		"ligature":                 {"The Oﬃce ﬁles", "the office files"},
		"n preceded by apostrophe": {"ŉ", "ʼn"},
		"long s":                   {"ſea", "SEA"},
		"Kelvin sign":              {"300 \u212a", "300 k"},
		"Ångström sign":            {"\u212b", "\u00e5"},
		"micro sign":               {"\u00b5", "\u039c"},
		"full-width letters":       {"ＡＢＣ", "ａｂｃ"},
		"Roman numerals":           {"Ⅳ", "ⅳ"},
		"composed and decomposed":  {"Caf\u00e9", "Cafe\u0301"},
		"decomposed, other case":   {"CAFE\u0301", "caf\u00e9"},
		"Hangul and its jamo":      {"\uac01", "\u1100\u1161\u11a8"},
		"order of marks":           {"q\u0307\u0323", "q\u0323\u0307"},
		"mark under and iota":      {"\u1fb7", "\u03b1\u0342\u03b9"},
		"spaces around":            {"  Spaced  ", "Spaced"},
		"spaces inside":            {"Two   words", "Two words"},
		"tab and newline":          {"Two\t\nwords", "Two words"},
		"no-break space":           {"Two\u00a0words", "Two words"},
		"ideographic space":        {"二つ\u3000語", "二つ 語"},
		"thin and line separators": {"Two\u2009\u2028words", "Two words"},
		"next line":                {"Two\u0085words", "Two words"},
	}
}

// differences returns pairs of titles that are not the same.
func differences() map[string][2]string {
	return map[string][2]string{
		"accent":                {"Caf\u00e9", "Cafe"},
		"accent of another":     {"Caf\u00e9", "Caf\u00e8"},
		"dotted I is not i":     {"\u0130stanbul", "istanbul"},
		"dotless i is not i":    {"\u0131l\u0131k", "ilik"},
		"umlaut is not e":       {"Über", "Ueber"},
		"punctuation":           {"Re:Zero", "ReZero"},
		"exclamation mark":      {"Again!", "Again"},
		"hyphen":                {"Spider-Man", "Spider Man"},
		"apostrophes":           {"Ender's", "Ender\u2019s"},
		"a space or none":       {"Some thing", "Something"},
		"zero-width space":      {"Some\u200bthing", "Something"},
		"full width":            {"ＡＢＣ", "ABC"},
		"circled digit":         {"①", "1"},
		"superscript":           {"x²", "x2"},
		"look-alike":            {"\u0421on", "Con"},
		"kana":                  {"カ", "か"},
		"simplified characters": {"龍", "龙"},
		"numbers":               {"Part 1", "Part 01"},
	}
}

func TestTitlesThatMatch(t *testing.T) {
	t.Parallel()
	p := blackbox.Shared(t).NewPartner(t)
	for name, spellings := range matches() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, order := range [][2]int{{0, 1}, {1, 0}} {
				suffix := blackbox.Unique("")
				first, second := spellings[order[0]]+suffix, spellings[order[1]]+suffix
				created := p.Upsert(t, blackbox.Key(), blackbox.Fields{"novel": first}).WantNovel(t, 201)
				if updated := p.Upsert(t, blackbox.Key(), blackbox.Fields{"novel": second}).WantNovel(t,
					200); updated.NovelID != created.NovelID {
					t.Errorf("%q is novel %s, %q is %s", first, created.NovelID, second, updated.NovelID)
				}
				p.Import(t, blackbox.Key(), blackbox.Comment(second)).WantPost(t, 201)
				shown := p.Service.Novel(t, second)
				if got, want := shown.Novel, strings.Join(strings.Fields(first), " "); shown.NovelID != created.NovelID ||
					got != want {
					t.Errorf("novel show %q: %q, want the first spelling %q", second, got, want)
				}
			}
		})
	}
}

func TestTitlesThatDiffer(t *testing.T) {
	t.Parallel()
	p := blackbox.Shared(t).NewPartner(t)
	for name, titles := range differences() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suffix := blackbox.Unique("")
			first := p.Upsert(t, blackbox.Key(), blackbox.Fields{"novel": titles[0] + suffix}).WantNovel(t, 201)
			second := p.Upsert(t, blackbox.Key(), blackbox.Fields{"novel": titles[1] + suffix}).WantNovel(t, 201)
			if first.NovelID == second.NovelID || first.Slug == second.Slug || first.URL == second.URL {
				t.Errorf("%+v and %+v share something", first, second)
			}
		})
	}
}

func TestCommentsFindTheNovelInAnySpelling(t *testing.T) {
	t.Parallel()
	s := blackbox.Shared(t)
	owner, other := s.NewPartner(t), s.NewPostsPartner(t)
	title := blackbox.Unique("Der Große Ödipus")
	owner.Upsert(t, blackbox.Key(), blackbox.Fields{"novel": title}).WantNovel(t, 201)
	threads := map[string]bool{}
	for _, spelling := range []string{
		title, strings.ToUpper(title), "  " + strings.ReplaceAll(title, " ", " \t") + "\n",
		strings.ReplaceAll(title, "ö", "o\u0308"),
	} {
		threads[other.Import(t, blackbox.Key(), blackbox.Comment(spelling)).WantPost(t, 201).ThreadID] = true
	}
	if len(threads) != 1 {
		t.Errorf("%d threads, want 1", len(threads))
	}
}

func TestStaffFindTheNovelInAnySpelling(t *testing.T) {
	t.Parallel()
	s := blackbox.Shared(t)
	title := blackbox.Unique("Straße")
	created := s.NewPartner(t).Upsert(t, blackbox.Key(), blackbox.Fields{"novel": title}).WantNovel(t, 201)
	rejected := s.Moderate(t, "reject", "  "+strings.ToUpper(title))
	if rejected.NovelID != created.NovelID || rejected.Novel != title {
		t.Errorf("rejected %+v, want %s with its first spelling", rejected, created.NovelID)
	}
}
