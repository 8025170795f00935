package title_test

import (
	"strings"
	"testing"

	"novelgate/internal/title"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                                     "",
		" ":                                    "",
		"a":                                    "a",
		"a b":                                  "a b",
		" a":                                   "a",
		"a ":                                   "a",
		"a  b":                                 "a b",
		"a\tb\nc\vd\fe\rf":                     "a b c d e f",
		"a\rb":                                 "a b",
		"a\u0085b\u00a0c\u1680d\u2000e":        "a b c d e",
		"a\u2028b\u2029c\u202fd\u205fe\u3000f": "a b c d e f",
		"\u200ba\u2060\ufeff\u180e":            "\u200ba\u2060\ufeff\u180e",
		"a\x1cb":                               "a\x1cb",
		"Ünï Çødé":                             "Ünï Çødé",
	} {
		if got := title.Clean(in); got != want {
			t.Errorf("Clean(%+q) = %+q, want %+q", in, got, want)
		}
	}
}

func TestSlug(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"The Wandering Inn":             "the-wandering-inn",
		"  Don't Stop -- Me!  ":         "dont-stop-me",
		"Café & Château":                "cafe-and-chateau",
		"Cafe\u0301":                    "cafe",
		"斗破苍穹":                          "dou-po-cang-qiong",
		"🙂🙃":                            "",
		"!!!":                           "",
		"":                              "",
		strings.Repeat("a", 100):        strings.Repeat("a", 80),
		strings.Repeat("a", 80):         strings.Repeat("a", 80),
		strings.Repeat("a", 80) + " b":  strings.Repeat("a", 80),
		strings.Repeat("a", 78) + " b":  strings.Repeat("a", 78) + "-b",
		strings.Repeat("a", 78) + " bb": strings.Repeat("a", 78),
		strings.Repeat("abc ", 40):      strings.Repeat("abc-", 19) + "abc",
		"Re:Zero − Starting Life in Another 世界": "re-zero-starting-life-in-another-shi-jie",
	} {
		if got := title.Slug(in); got != want {
			t.Errorf("Slug(%q) = %q, want %q", in, got, want)
		}
	}
}
