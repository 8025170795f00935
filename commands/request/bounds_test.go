package request_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"novelgate/docs"
)

// text returns a JSON string of so many characters.
func text(n int, character string) string { return `"` + strings.Repeat(character, n) + `"` }

// list returns a JSON array of so many entries.
func list(n int, entry string) string { return "[" + strings.Repeat(entry+",", n-1) + entry + "]" }

// TestBounds sends values at and beyond the bounds of every member. docs/openapi.yaml describes those that are accepted
// as valid and those that are refused as invalid, unless only words can: NUL, white space beyond ASCII, HTML.
func TestBounds(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(docs.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	const (
		astral    = "🐉" // one code point, two UTF-16 units, four bytes
		combining = "\u0301"
		blank     = `" \t\n"`
		url       = "https://cdn.example.com/"
	)
	titles := struct{ accepted, refused []string }{
		[]string{`"x"`, text(300, "x"), text(300, astral), text(300, combining)},
		[]string{
			`null`, `""`, blank, `"\u3000"`, text(301, "x"), text(301, astral), text(301, combining), `1984`, `["x"]`, `{}`,
			`true`, `"a\u0000b"`,
		},
	}
	for _, tc := range []struct {
		schema, member    string
		accepted, refused []string
	}{
		{"NovelUpsert", "novel", titles.accepted, titles.refused},
		{
			"NovelUpsert", "author",
			[]string{`null`, `"A"`, text(120, "a"), text(120, astral)},
			[]string{`""`, blank, text(121, "a"), text(121, astral), `1`, `"a\u0000b"`},
		},
		{
			"NovelUpsert", "synopsis",
			[]string{`null`, `""`, blank, text(5000, "s"), text(5000, astral)},
			[]string{text(5001, "s"), text(5001, astral), `false`, `"a\u0000b"`},
		},
		{
			"NovelUpsert", "coverUrl",
			[]string{`null`, `"` + url + strings.Repeat("c", 2000-len(url)) + `"`},
			[]string{`""`, blank, `"` + url + strings.Repeat("c", 2001-len(url)) + `"`, `1`, `"` + url + `\u0000"`},
		},
		{
			"NovelUpsert", "genres",
			[]string{`null`, `[]`, list(20, text(50, "g")), list(1, text(50, astral))},
			[]string{
				list(21, `"g"`), `["a",""]`, `["a",` + blank + `]`, `["a","b",` + text(51, "g") + `]`, list(1, text(51, astral)),
				`[null]`, `["a",1]`, `"Fantasy"`, `{"0":"Fantasy"}`, `["a","b\u0000"]`,
			},
		},
		{
			"NovelUpsert", "language",
			[]string{`null`, `""`, blank, text(50, "l"), text(50, astral)},
			[]string{text(51, "l"), text(51, astral), `["en"]`, `"a\u0000b"`},
		},
		{
			"NovelUpsert", "readingStatus",
			[]string{`null`, `"ongoing"`, `"completed"`, `"hiatus"`},
			[]string{`"dropped"`, `"Ongoing"`, `""`, `"ongoing "`, `1`, `"\u0000"`},
		},
		{
			"PostImport", "uuid",
			[]string{`"u"`, text(255, "u"), text(255, astral)},
			[]string{`null`, `""`, blank, text(256, "u"), text(256, astral), `42`, `"a\u0000b"`},
		},
		{
			"PostImport", "username",
			[]string{`"u"`, text(50, "u"), text(50, astral)},
			[]string{`null`, `""`, blank, text(51, "u"), text(51, astral), `true`, `"a\u0000b"`},
		},
		{"PostImport", "novel", titles.accepted, titles.refused},
		{
			"PostImport", "content",
			[]string{`"x"`, text(1, astral), text(20_000, "c"), `"a < b"`, `"<3"`, `"&lt;b&gt;"`},
			[]string{
				`null`, `""`, blank, `"\u00a0\u3000"`, text(20_001, "c"), `{"text":"x"}`, `1`, `"a\u0000b"`, `"<b>bold</b>"`,
				`"<!-- a comment -->"`,
			},
		},
		{
			"PostImport", "chapterNumber",
			[]string{`null`, `0`, `0.0`, `-0`, `12.5`, `1000000`, `1e2`, `1E+6`, `1000000.00`, `5e-3`},
			[]string{`1000001`, `1e7`, `-1`, `-0.0000000001`, `"5"`, `true`, `[1]`},
		},
		{
			"PostImport", "timestamp",
			[]string{`null`, `"2024-02-29T12:30:45Z"`},
			[]string{`""`, blank, `1700000000`, `"yesterday"`, `"2024-02-29T12:30:45Z\u0000"`},
		},
		{
			"PostImport", "parent_uuid",
			[]string{`null`, `""`, blank, `"nobody"`, `"ключ 🐉"`, text(10_000, "p")},
			[]string{`1`, `false`, `["x"]`, `{}`, `"a\u0000b"`},
		},
	} {
		decode, valid := decodePost, post
		if tc.schema == "NovelUpsert" {
			decode, valid = decodeNovel, novel
		}
		schema := doc.Components.Schemas[tc.schema].Value
		for i, value := range append(tc.accepted, tc.refused...) {
			body := valid(`"` + tc.member + `":` + value)
			var decoded any
			if err := json.Unmarshal([]byte(body), &decoded); err != nil {
				t.Fatal(err)
			}
			err, described := decode([]byte(body)), schema.VisitJSON(decoded)
			accepted, inWords := i < len(tc.accepted), strings.Contains(value, `\u`) || strings.Contains(value, "<")
			if (err == nil) != accepted || (described == nil) != accepted && !inWords {
				t.Errorf("%s %s %.60s: %v, but described: %v", tc.schema, tc.member, value, err, described)
			}
			if err == nil {
				continue
			}
			if fields := refusal(t, err).Fields; len(fields) == 0 || !strings.HasPrefix(fields[0].Field, tc.member) {
				t.Errorf("%s %s %.60s: %v", tc.schema, tc.member, value, err)
			}
		}
	}
}
