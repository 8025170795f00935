package request_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/commands/request"
	"novelgate/internal/title"
)

func TestDecodeNovel(t *testing.T) {
	t.Parallel()
	const name = "The Wandering Inn"
	for body, want := range map[string]request.Novel{
		novel(): {Title: name},
		novel(`"author":null`, `"synopsis":null`, `"coverUrl":null`, `"genres":null`, `"language":null`,
			`"readingStatus":null`): {Title: name},
		novel(`"synopsis":""`, `"language":""`, `"genres":[]`): {
			Title: name, Synopsis: str(""), Language: str(""), Genres: &[]string{},
		},
		novel(`"language":"  "`, `"synopsis":" a\n\tb "`): {
			Title: name, Synopsis: str(" a\n\tb "), Language: str(""),
		},
		novel(`"author":" piraté aba\t"`): {Title: name, Author: str("piraté aba")},
		novel(`"genres":[" Fantasy ","LitRPG","LitRPG"]`): {
			Title: name, Genres: &[]string{"Fantasy", "LitRPG", "LitRPG"},
		},
		novel(`"coverUrl":"https://covers.example.com/1.jpg?a#b"`): {
			Title: name, CoverURL: str("https://covers.example.com/1.jpg?a#b"),
		},
		novel(`"readingStatus":"hiatus"`, `"uuid":5`,
			`"UUID":5`): {
			Title: name, ReadingStatus: str("hiatus"),
		},
	} {
		got, err := request.DecodeNovel([]byte(body))
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		want.FoldedTitle = title.Fold(want.Title)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
	}
}

// TestDecodeNovelRefusesFields tests the messages, TestBounds all bounds.
func TestDecodeNovelRefusesFields(t *testing.T) {
	t.Parallel()
	for body, want := range map[string][]string{
		novel(`"author":" "`):        {"author: must have 1 to 120 characters, got an empty"},
		novel(`"synopsis":"\u0000"`): {"synopsis: must not contain the character NUL"},
		novel(`"coverUrl":""`):       {"coverUrl: must be an absolute https URL"},
		novel(`"coverUrl":"https://a.example/` + strings.Repeat("x", 1983) + `"`): {
			"coverUrl: must have at most 2,000 characters, got 2,001",
		},
		novel(`"genres":{}`): {"genres: must be an array, got an object"},
		novel(`"genres":[["a"],5,""]`): {
			"genres[0]: must be a string, got an array", "genres[1]: must be a string, got a number",
			"genres[2]: must have 1 to 50",
		},
		novel(`"genres":["` + strings.Repeat("é", 51) + `"]`): {
			"genres[0]: must have 1 to 50 characters, got 51",
		},
		novel(`"genres":["a"` + strings.Repeat(`,"a"`, 20) + `]`): {
			"genres: must have at most 20 entries, got 21",
		},
		novel(`"genres":[` + strings.Repeat(`1,`, 1999) + `1]`): append(repeat(
			"genres[%d]: must be a string", 20), "genres: must have at most 20 entries, got 2,000"),
		novel(`"readingStatus":"Ongoing"`): {
			`readingStatus: must be ongoing, completed or hiatus, got "Ongoing"`,
		},
		novel(`"readingStatus":""`): {
			`readingStatus: must be ongoing, completed or hiatus, got ""`,
		},
		novel(`"readingStatus":"` + strings.Repeat("é", 9999) + `"`): {
			`readingStatus: must be ongoing, completed or hiatus, got "` + strings.Repeat("é", 40) + `…"`,
		},
		`{"readingStatus":1,"Language":2,"genres":3,"coverURL":4,"synopsis":5,"author":6,"novel":7}`: {
			"novel: must be", "author: must be", "synopsis: must be", "coverURL: unknown member", "genres: must be",
			"Language: unknown member", "readingStatus: must be",
		},
	} {
		_, err := request.DecodeNovel([]byte(body))
		wantFields(t, body, err, want...)
	}
}

func repeat(format string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(format, i))
	}
	return out
}
