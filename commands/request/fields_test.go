package request_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"pgregory.net/rapid"

	"novelgate/commands/request"
	"novelgate/docs"
	"novelgate/internal/web"
)

// text returns a JSON string of n characters.
func text(n int, character string) string { return `"` + strings.Repeat(character, n) + `"` }

// list returns a JSON array of n entries.
func list(n int, entry string) string { return "[" + strings.Repeat(entry+",", n-1) + entry + "]" }

// TestBounds sends values at and beyond the limits of every member. docs/openapi.yaml must allow accepted values and
// forbid refused ones, except for rules that it has only in words: NUL, white space beyond ASCII, HTML.
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
			[]string{`null`, `""`, `"` + url + strings.Repeat("c", 2000-len(url)) + `"`},
			[]string{blank, `"` + url + strings.Repeat("c", 2001-len(url)) + `"`, `1`, `"` + url + `\u0000"`},
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

// TestIdempotencyKeysAreDescribed: the described pattern of the header accepts the same keys as the service.
func TestIdempotencyKeysAreDescribed(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(docs.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	described := doc.Components.Parameters["IdempotencyKey"].Value.Schema.Value
	check := func(t interface {
		Errorf(format string, args ...any)
	}, key string,
	) {
		_, refused := web.IdempotencyKey(http.Header{"Idempotency-Key": {key}})
		if wrong := described.VisitJSON(key); (refused == nil) != (wrong == nil) {
			t.Errorf("%q: %v, but described: %v", key, refused, wrong)
		}
	}
	for _, key := range []string{
		``, `"`, `""`, `"unclosed`, `closed"`, `a"b`, `"a"b"`, `"\"`, `"\""`, `"\\"`, `"\a"`, `a b`, `"a b"`, `é`, `~`, `!`,
	} {
		check(t, key)
	}
	for _, length := range []int{254, 255, 256} {
		for _, form := range []string{`%s`, `"%s"`} {
			check(t, fmt.Sprintf(form, strings.Repeat("k", length)))
			check(t, fmt.Sprintf(form, strings.Repeat("k", length-1)+`\\`))
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		check(rt, rapid.StringOfN(rapid.SampledFrom([]rune(`"\a!~é`)), 0, 6, -1).Draw(rt, "key"))
	})
}

// TestCoverURLsAreDescribed: the described pattern refuses invalid URLs. Which hosts are not public is only in words.
func TestCoverURLsAreDescribed(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(docs.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	described := doc.Components.Schemas["NovelUpsert"].Value.Properties["coverUrl"].Value
	for _, address := range []string{
		"https://covers.example.com", "HTTPS://covers.example.com:8443/a/b.jpg?c=d&e=%20#f", "https://covers.example.com?x=@",
		"https://[2606:4700::1111]/1.jpg",
		"https://bücher.example/ü.jpg", "https://", "https:///1.jpg", "https://?x", "http://covers.example.com/1.jpg",
		"https:covers.example.com", "//covers.example.com/1.jpg",
		"https://ada@covers.example.com/", "https://ada:x@covers.example.com/", "https://covers.example.com/<b>",
		`https://covers.example.com/"`,
		`https://covers.example.com\@evil.example/`, "https://covers.example.com/a b", "https://covers.example.com/\x01",
		"https://covers.example.com/\u0085",
	} {
		body, err := json.Marshal(map[string]string{"novel": "A", "coverUrl": address})
		if err != nil {
			t.Fatal(err)
		}
		if refused, wrong := decodeNovel(body), described.VisitJSON(address); (refused == nil) != (wrong == nil) {
			t.Errorf("%q: %v, but described: %v", address, refused, wrong)
		}
	}
}

func decodeNovel(body []byte) error {
	_, err := request.DecodeNovel(body)
	return err
}

func decodePost(body []byte) error {
	_, err := request.DecodePost(body, received)
	return err
}

// chapter decodes a chapterNumber; ok is false when it is refused.
func chapter(t testing.TB, number string) (text string, ok bool) {
	t.Helper()
	p, err := request.DecodePost([]byte(post(`"chapterNumber":`+number)), received)
	if err != nil {
		if fields := refusal(t, err).Fields; len(fields) != 1 || fields[0].Field != "chapterNumber" ||
			len(fields[0].Message) > 200 {
			t.Errorf("%.60s: %v", number, err)
		}
		return "", false
	}
	return p.Chapter.String(), true
}

func TestChapterNumber(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("0", 30_000)
	for number, want := range map[string]string{
		"0": "0", "-0": "0", "0.0": "0", "-0.00e5": "0", "0e999999999999999999999": "0", "0e-999999999": "0",
		"1": "1", "1.0": "1", "1.50": "1.5", "10": "10", "100.25": "100.25", "0.5": "0.5", "0.05": "0.05",
		"1e2": "100", "1E+2": "100", "1e02": "100", "150e-2": "1.5", "0.1e7": "1000000", "1e6": "1000000",
		"1000000.000":                          "1000000",
		"999999.99999999999999999999":          "999999.99999999999999999999",
		"1e-20":                                "0.00000000000000000001",
		"9007199254740993e-12":                 "9007.199254740993",
		"0.1000000000000000055511151231257827": "", // 34 digits
		"1e-21":                                "",
		"1000000.00000000000000000001":         "",
		"1000001":                              "", "1e7": "", "1e999999999999999999999": "", "1e-999999999999999999999": "",
		"-1": "", "-1e-5": "",
		"0." + zeros + "1e30001": "1",
		"1" + zeros + "e-30000":  "1",
		"1" + zeros:              "",
		"0." + zeros + "1":       "",
		"1." + zeros:             "1",
	} {
		got, ok := chapter(t, number)
		if got != want || ok != (want != "") {
			t.Errorf("chapterNumber %.60s: %q, %v, want %q", number, got, ok, want)
		}
	}
}

// TestChapterNumberIsExact compares with arbitrary-precision fractions.
func TestChapterNumberIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,8})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,2})?`).Draw(rt, "number")
		value, _ := new(big.Rat).SetString(number)
		fine := new(big.Rat).Mul(value, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(20), nil)))
		valid := value.Sign() >= 0 && value.Cmp(big.NewRat(1_000_000, 1)) <= 0 && fine.IsInt()

		text, ok := chapter(t, number)
		if ok != valid {
			rt.Fatalf("%s: accepted is %v, want %v", number, ok, valid)
		}
		if !ok {
			return
		}
		want := value.FloatString(20)
		if want = strings.TrimRight(strings.TrimRight(want, "0"), "."); strings.Contains(value.FloatString(20), ".") &&
			text != want {
			rt.Fatalf("%s: %s, want %s", number, text, want)
		}
	})
}

// TestParentKeys: parent_uuid has every spelling of a key that the header has. Any other text is kept.
func TestParentKeys(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]string{
		`evt-1`: "evt-1", `\"evt-1\"`: "evt-1", ` evt-1\t`: "evt-1", `\"a\\\"b\"`: `a"b`,
		`\"evt-1`: `"evt-1`, `two words`: "two words", ``: "",
	} {
		p, err := request.DecodePost([]byte(post(`"parent_uuid":"`+sent+`"`)), received)
		if err != nil || *p.ParentKey != want {
			t.Errorf("%s: %v, %v", sent, p.ParentKey, err)
		}
	}
}
