package title_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"novelgate/internal/title"
)

// TestClip: a text is cut between what readers see as characters, and has a limited number of bytes.
func TestClip(t *testing.T) {
	t.Parallel()
	const accented, family, flag = "e\u0301", "👩‍👩‍👧‍👦", "🇳🇴"
	marks := strings.Repeat("\u0335\u0327", 8<<10) // 32 KB
	for text, want := range map[string]string{
		"": "", "abc": "abc", "abcd": "abc…", "日本語の": "日本語…",
		strings.Repeat(accented, 3): strings.Repeat(accented, 3),
		strings.Repeat(accented, 4): strings.Repeat(accented, 3) + "…",
		strings.Repeat(family, 4):   strings.Repeat(family, 3) + "…", strings.Repeat(flag, 4): strings.Repeat(flag, 3) + "…",
		"\r\n\r\nab": "\r\n\r\na…", "한국어\u1112\u1161\u11ab": "한국어…", "\xff\xfe\xfd\xfc": "\xff\xfe\xfd…",
		"ab" + marks + "c": "a…", "Z" + marks: "Z" + marks[:94] + "…", marks: marks[:96] + "…",
		"ab" + family + marks: "ab…",
	} {
		if got := title.Clip(text, 3); got != want {
			t.Errorf("Clip(%.40q) = %.200q, want %q", text, got, want)
		}
	}
	if got := title.Clip(strings.Repeat(family, 100), 40); len(got) > 40*32+len("…") || !utf8.ValidString(got) {
		t.Errorf("%d bytes", len(got))
	}
}
