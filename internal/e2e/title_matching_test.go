package e2e_test

import (
	"strings"
	"testing"
)

// matches returns pairs of spellings of one title; internal/title tests all of Unicode.
func matches() map[string][2]string {
	return map[string][2]string{
		"letter case":             {"The CLOCKMAKER's apprentice", "the clockmaker's APPRENTICE"},
		"sharp s":                 {"Straße", "STRASSE"},
		"final sigma":             {"ΟΔΥΣΣΕΥΣ", "οδυσσευς"},
		"Deseret, beyond the BMP": {"\U00010400\U00010401", "\U00010428\U00010429"},
		"dotted I is i and a dot": {"\u0130stanbul", "i\u0307stanbul"},
		"decomposed, other case":  {"CAFE\u0301", "caf\u00e9"},
		"order of marks":          {"q\u0307\u0323", "q\u0323\u0307"},
		"spaces around":           {"  Spaced  ", "Spaced"},
		"tab and newline":         {"Two\t\nwords", "Two words"},
		"ideographic space":       {"二つ\u3000語", "二つ 語"},
	}
}

// differences returns pairs of titles that are not the same.
func differences() map[string][2]string {
	return map[string][2]string{
		"accent":             {"Caf\u00e9", "Cafe"},
		"dotless i is not i": {"\u0131l\u0131k", "ilik"},
		"punctuation":        {"Again!", "Again"},
		"a space or none":    {"Some thing", "Something"},
		"zero-width space":   {"Some\u200bthing", "Something"},
		"full width":         {"ＡＢＣ", "ABC"},
		"look-alike":         {"\u0421on", "Con"},
	}
}

func TestTitlesThatMatch(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	for name, spellings := range matches() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, order := range [][2]int{{0, 1}, {1, 0}} {
				suffix := Unique("")
				first, second := spellings[order[0]]+suffix, spellings[order[1]]+suffix
				created := p.Upsert(t, Key(), Fields{"novel": first}).WantNovel(t, 201)
				if updated := p.Upsert(t, Key(), Fields{"novel": second}).WantNovel(t,
					200); updated.NovelID != created.NovelID {
					t.Errorf("%q is novel %s, %q is %s", first, created.NovelID, second, updated.NovelID)
				}
				p.Import(t, Key(), Comment(second)).WantPost(t, 201)
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
	p := Shared(t).NewPartner(t)
	for name, titles := range differences() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suffix := Unique("")
			first := p.Upsert(t, Key(), Fields{"novel": titles[0] + suffix}).WantNovel(t, 201)
			second := p.Upsert(t, Key(), Fields{"novel": titles[1] + suffix}).WantNovel(t, 201)
			if first.NovelID == second.NovelID || first.Slug == second.Slug || first.URL == second.URL {
				t.Errorf("%+v and %+v share something", first, second)
			}
		})
	}
}

func TestCommentsFindTheNovelInAnySpelling(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	owner, other := s.NewPartner(t), s.NewPostsPartner(t)
	title := Unique("Der Große Ödipus")
	owner.Upsert(t, Key(), Fields{"novel": title}).WantNovel(t, 201)
	threads := map[string]bool{}
	for _, spelling := range []string{
		title, strings.ToUpper(title), "  " + strings.ReplaceAll(title, " ", " \t") + "\n",
		strings.ReplaceAll(title, "ö", "o\u0308"),
	} {
		threads[other.Import(t, Key(), Comment(spelling)).WantPost(t, 201).ThreadID] = true
	}
	if len(threads) != 1 {
		t.Errorf("%d threads, want 1", len(threads))
	}
}

func TestStaffFindTheNovelInAnySpelling(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	title := Unique("Straße")
	created := s.NewPartner(t).Upsert(t, Key(), Fields{"novel": title}).WantNovel(t, 201)
	rejected := s.Moderate(t, "reject", "  "+strings.ToUpper(title))
	if rejected.NovelID != created.NovelID || rejected.Novel != title {
		t.Errorf("rejected %+v, want %s with its first spelling", rejected, created.NovelID)
	}
}
