package title_test

import (
	"strings"
	"testing"

	"novelgate/internal/title"
)

func TestSearch(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"The Clockmaker\u2019s  Apprentice": "the clockmakers apprentice", "CAFE\u0301 Rivi\u00e8re": "cafe riviere",
		"Ma\u00dfe: Stra\u00dfe": "masse strasse", "\u0424\u0451\u0434\u043e\u0440": "\u0444\u0435\u0434\u043e\u0440",
		"\u300a\u7d05\u6a13\u5922\u300b": "\u7d05\u6a13\u5922",
		"\uac00\uad6c":                   "\uac00\uad6c", "\u304c\u30d1": "\u304c\u30d1",
		"Re:Zero \u2013 II": "re zero ii", "C++ & $": "c++ $", "???": "???", "\u0301": "\u0301", "": "",
		"\u0141\u00f3d\u017a \u00d8 \u00c6sir": "lodz o aesir", "\uff32\uff45\uff1a\uff11": "re 1", "\u0130\u0131": "ii",
	} {
		got := title.Search(text)
		if got != want || title.Search(got) != got {
			t.Errorf("%q is searched as %q and then %q, want %q", text, got, title.Search(got), want)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Don't  say \u201cCAF\u00c9\u201d, say caf\u00e9!": "dont say cafe say cafe",
		"chapter 12.5: b2b_x":                              "chapter 12 5 b2b x",
		"":                                                 "", "?! \U0001f642 $": "",
		"\u7d05\u6a13\u5922": "\u7d05 \u6a13 \u7d05\u6a13 \u5922 \u6a13\u5922",
		"ab\u7d05c \u6a13":   "ab \u7d05 c \u6a13",
		"\uac00\uad6c":       "\uac00 \uad6c \uac00\uad6c", "\u0434\u0430 \u0414\u0410": "\u0434\u0430 \u0434\u0430",
	} {
		// The same words beside others that are not ASCII.
		longer, _ := strings.CutSuffix(strings.Join(title.Words(text+" \u0436"), " "), "\u0436")
		if got := strings.Join(title.Words(text), " "); got != want || strings.TrimSpace(longer) != want {
			t.Errorf("%q has the words %q, want %q", text, got, want)
		}
	}
}
