package title_test

import (
	"strings"
	"testing"

	"novelgate/internal/title"
)

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
