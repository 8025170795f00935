package request_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	aggregate "novelgate/aggregates/novel"
	"novelgate/commands/request"
	"novelgate/internal/problem"
	"novelgate/internal/title"
)

// received is the time of receipt in these tests.
var received = time.Date(2024, 5, 1, 10, 0, 0, 123_456_789, time.UTC)

// post returns a valid body in which members are added or replaced.
func post(members ...string) string {
	return object([]string{`"uuid":"u-1"`, `"username":"Mia"`, `"novel":"The Wandering Inn"`, `"content":"Nice."`},
		members)
}

// novel returns a valid body of a novel, likewise.
func novel(members ...string) string {
	return object([]string{`"novel":"The Wandering Inn"`}, members)
}

func object(base, members []string) string {
	var out []string
	for _, b := range base {
		name, _, _ := strings.Cut(b, ":")
		replaced := false
		for _, m := range members {
			replaced = replaced || strings.HasPrefix(m, name+":")
		}
		if !replaced {
			out = append(out, b)
		}
	}
	return "{" + strings.Join(append(out, members...), ",") + "}"
}

// without returns a valid body of a post without one member.
func without(name string) string {
	var out []string
	for _, m := range strings.Split(strings.Trim(post(), "{}"), ",") {
		if !strings.HasPrefix(m, `"`+name+`"`) {
			out = append(out, m)
		}
	}
	return "{" + strings.Join(out, ",") + "}"
}

// refusal returns the *problem.Error in err.
func refusal(t testing.TB, err error) *problem.Error {
	t.Helper()
	p, ok := errors.AsType[*problem.Error](err)
	if !ok {
		t.Fatalf("error %v (%T) is no *problem.Error", err, err)
	}
	return p
}

// wantFields checks that err is an invalid_request with these "field: message" pairs. A wanted message may be a prefix.
func wantFields(t *testing.T, body string, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%.200s: accepted, want %q", body, want)
		return
	}
	p := refusal(t, err)
	if p.Code != problem.CodeInvalidRequest {
		t.Errorf("%.200s: code %s", body, p.Code)
	}
	var got []string
	for i, f := range p.Fields {
		line := f.Field + ": " + f.Message
		if i < len(want) && strings.HasPrefix(line, want[i]) {
			line = want[i]
		}
		got = append(got, line)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%.200s: %s", body, diff)
	}
}

func TestDecodePost(t *testing.T) {
	t.Parallel()
	want := request.Post{
		AuthorUUID: "u-1", Username: "Mia", Title: "The Wandering Inn", FoldedTitle: "the wandering inn", Content: "Nice.",
		WrittenAt: received.Truncate(time.Microsecond),
	}
	more := want
	more.Unknown = []string{"unknown", "cover", ""}
	full := want
	full.AuthorUUID = " u 1 "
	full.Username = "Mïa 🙂"
	full.Title = "The Wandering Inn"
	full.Content = " a < b,\n<3 &amp; \"<System>\" \u2028 "
	chapter := request.Decimal("12.5")
	full.Chapter = &chapter
	full.WrittenAt = time.Date(2024, 4, 30, 22, 30, 0, 500_000_000, time.UTC)
	full.TimestampGiven = true
	full.ParentKey = new("evt-0 \"x\"\t")

	for body, want := range map[string]request.Post{
		post():                     want,
		" \n" + post() + "\r\n\t ": want,
		post(`"chapterNumber":null`, `"timestamp":null`, `"parent_uuid":null`):      want,
		post(`"unknown":{"a":[1,{"b":null}],"Novel":1}`, `"cover":"x"`, `"":1`):     more,
		strings.ReplaceAll(post(), `"novel"`, `"no\u0076el"`):                       want,
		strings.ReplaceAll(post(), `"Mia"`, `" \t\u00a0M\u0069a\u3000"`):            want,
		strings.ReplaceAll(post(), `The Wandering Inn`, `  The\n\tWandering   Inn`): want,
		`{"parent_uuid":"evt-0 \"x\"\t","timestamp":"2024-05-01T00:30:00.5+02:00","chapterNumber":1.25e1,` +
			`"content":" a < b,\n<3 &amp; \"<System>\" \u2028 ","novel":"The Wandering Inn","username":"M\u00efa \ud83d\ude42","uuid":" u 1 "}`: full,
	} {
		got, err := request.DecodePost([]byte(body), received)
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
	}
}

// TestDecodePostRefusesFields tests the messages, TestBounds all bounds.
func TestDecodePostRefusesFields(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return strings.Repeat("é", n) }
	for body, want := range map[string][]string{
		without("uuid"):     {"uuid: is required"},
		post(`"uuid":null`): {"uuid: is required and must not be null"},
		post(`"uuid":" \u3000"`): {
			"uuid: must have 1 to 255 characters, got an empty or blank string",
		},
		post(`"content":"` + long(20001) + `"`):              {"content: must have 1 to 20,000 characters, got 20,001"},
		post(`"content":"x <\u0062>"`):                       {"content: must be plain text, but contains HTML: <b>"},
		post(`"content":"a\u0000b"`):                         {"content: must not contain the character NUL"},
		post(`"content":{}`):                                 {"content: must be a string, got an object"},
		post(`"chapterNumber":"5"`):                          {`chapterNumber: must be a number, got the string "5"`},
		post(`"chapterNumber":1000000.5`):                    {"chapterNumber: must be from 0 to 1,000,000, got 1000000.5"},
		post(`"timestamp":"2024-05-01"`):                     {"timestamp: must be ISO 8601"},
		post(`"timestamp":"2024-05-01T10:00"`):               {"timestamp: must have an explicit time zone"},
		post(`"timestamp":"2024-05-01T10:05:00.123456790Z"`): {"timestamp: must be at most five minutes in the future"},
		// Names are case-sensitive; there is one error for each.
		strings.ReplaceAll(post(), `"novel"`, `"Novel"`): {`Novel: unknown member: the name is "novel"`},
		post(`"NOVEL":null`):                             {`NOVEL: unknown member: the name is "novel"`},
		post(`"Parent_UUID":"x"`):                        {`Parent_UUID: unknown member: the name is "parent_uuid"`},
		post(`"chapternumber":1`):                        {`chapternumber: unknown member: the name is "chapterNumber"`},
		post(`"timeſtamp":"x"`):                          {`timeſtamp: unknown member: the name is "timestamp"`},
		// All errors together, in the order of the documentation.
		`{"parent_uuid":1,"timestamp":2,"chapterNumber":"3","content":4,"NOVEL":5,"username":null}`: {
			"uuid: is required", "username: is required and must not be null", "NOVEL: unknown member",
			"content: must be a string, got a number", `chapterNumber: must be a number, got the string "3"`,
			"timestamp: must be a string, got a number", "parent_uuid: must be a string, got a number",
		},
		post(`"content":"<i>` + long(20000) + `"`): {"content: must have 1 to 20,000", "content: must be plain text"},
		`{}`: {"uuid: is required", "username: is required", "novel: is required", "content: is required"},
	} {
		_, err := request.DecodePost([]byte(body), received)
		wantFields(t, body, err, want...)
	}
}

// TestInvisible: what readers see in place of a name or a text must not be nothing.
func TestInvisible(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`\u200b`, `\ufeff\u00ad`, `\u202e \u202c`, `\u3164`, `\u2800\u2800`, `\u115f`, `\ufe0f`} {
		for _, field := range []string{"username", "novel", "content"} {
			body := post(`"` + field + `":"` + text + `"`)
			wantFields(t, body, decodePost([]byte(body)), field+": must have a visible character, got ")
		}
		for field, body := range map[string]string{
			"novel":     `{"novel":"` + text + `"}`,
			"author":    `{"novel":"x","author":"` + text + `"}`,
			"genres[1]": `{"novel":"x","genres":["a","` + text + `"]}`,
		} {
			wantFields(t, body, decodeNovel([]byte(body)), field+": must have a visible character, got ")
		}
	}
}

func TestMalformedBodies(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 16_000)
	for body, want := range map[string]struct{ field, detail string }{
		"":                                 {"", "but it is empty"},
		" \n":                              {"", "but it is empty"},
		"null":                             {"", "but it is null"},
		"[]":                               {"", "but it is an array"},
		`"x"`:                              {"", "but it is a string"},
		"42":                               {"", "but it is a number"},
		"true":                             {"", "but it is a boolean"},
		"x":                                {"", "at byte 0"},
		"\ufeff" + post():                  {"", "byte order mark"},
		"{":                                {"", "unexpected EOF at byte 1"},
		`{"novel"`:                         {"novel", "unexpected EOF at byte 8"},
		`{"novel":"x`:                      {"novel", "unexpected EOF"},
		`{"novel":"x"`:                     {"", "unexpected EOF"},
		`{"novel":"x",}`:                   {"", "at byte 12"},
		`{novel:"x"}`:                      {"", "at byte 2"},
		`{'novel':"x"}`:                    {"", "at byte 1"},
		`{"novel":01}`:                     {"", "at byte"},
		`{"novel":NaN}`:                    {"novel", "at byte"},
		`{1:2}`:                            {"", "at byte 1"},
		post() + "x":                       {"", "more data follows"},
		post() + "{}":                      {"", "more data follows"},
		post() + "\x00":                    {"", "more data follows"},
		post() + "// c":                    {"", "more data follows"},
		post(`"a":"\ud800"`):               {"", "surrogate"},
		post(`"content":"\udc00"`):         {"content", "surrogate"},
		post(`"content":"\ud800\ud800"`):   {"content", "surrogate"},
		post(`"content":"` + "\xff" + `"`): {"content", "invalid UTF-8"},
		post(`"content":"` + "\xed\xa0\x80" + `"`):  {"content", "invalid UTF-8"},
		post(`"` + "\xc0" + `":1`):                  {"", "invalid UTF-8"},
		post(`"content":"` + "\n" + `"`):            {"content", "at byte"},
		post(`"content":"` + "\x00" + `"`):          {"content", "at byte"},
		post(`"content":"\x"`):                      {"content", "at byte"},
		post(`"a":1`, `"a":2`):                      {"a", "duplicate member"},
		post(`"content":"a"`, `"content":"b"`):      {"content", "duplicate member"},
		post(`"content":"a"`, `"cont\u0065nt":"b"`): {"content", "duplicate member"},
		post(`"x":{"y":[{"z":1,"z":2}]}`):           {"x", "duplicate member inside at byte"},
		`{"z":{"a":1,"a":2}}`:                       {"z", "duplicate member inside at byte 12"},
		`{"novel":{"z":1,"z":2}}`:                   {"novel", "duplicate member inside at byte 16"},
		`{"a/b~":{"c":1,"c":2}}`:                    {"a/b~", "duplicate member inside at byte 15"},
		`{"":1,"":2}`:                               {"", "at byte 6"},
		post(`"x":` + deep):                         {"", "exceeded max depth"},
		post(`"novel":` + deep):                     {"novel", "exceeded max depth"},
	} {
		_, err := request.DecodePost([]byte(body), received)
		if err == nil {
			t.Errorf("%.100q: accepted", body)
			continue
		}
		p := refusal(t, err)
		field := ""
		if len(p.Fields) > 0 {
			field = p.Fields[0].Field
		}
		if p.Code != problem.CodeInvalidRequest || field != want.field || !strings.Contains(p.Detail, want.detail) {
			t.Errorf("%.100q: %s, field %q, detail %q, want field %q, detail %q", body, p.Code, field, p.Detail, want.field,
				want.detail)
		}
		if len(p.Detail) > 300 {
			t.Errorf("%.100q: the detail has %d bytes", body, len(p.Detail))
		}
	}
}

func TestMessagesDoNotEchoTexts(t *testing.T) {
	t.Parallel()
	const secret = "xyzzyxyzzy"
	body := `{"uuid":"\u0000` + secret + `","username":"\u0000` + secret + `","novel":"\u0000` + secret +
		`","content":"<b>` + secret + `"}`
	_, err := request.DecodePost([]byte(body), received)
	p := refusal(t, err)
	if len(p.Fields) != 4 || strings.Contains(err.Error(), secret) {
		t.Errorf("%v", err)
	}
	for _, f := range p.Fields {
		if strings.Contains(f.Message, secret) {
			t.Errorf("%s: %s", f.Field, f.Message)
		}
	}
}

type fields = aggregate.Fields

func TestDecodeNovel(t *testing.T) {
	t.Parallel()
	const name = "The Wandering Inn"
	for body, want := range map[string]request.Novel{
		novel(): {Title: name},
		novel(`"author":null`, `"synopsis":null`, `"coverUrl":null`, `"genres":null`, `"language":null`,
			`"readingStatus":null`): {Title: name},
		novel(`"synopsis":""`, `"language":""`, `"genres":[]`): {
			Title: name, Fields: fields{Synopsis: new(""), Language: new(""), Genres: &[]string{}},
		},
		novel(`"language":"  "`, `"synopsis":" a\n\tb "`): {
			Title: name, Fields: fields{Synopsis: new(" a\n\tb "), Language: new("")},
		},
		novel(`"author":" piraté aba\t"`): {Title: name, Fields: fields{Author: new("piraté aba")}},
		novel(`"genres":[" Fantasy ","LitRPG","LitRPG"]`): {
			Title: name, Fields: fields{Genres: &[]string{"Fantasy", "LitRPG", "LitRPG"}},
		},
		novel(`"coverUrl":"https://covers.example.com/1.jpg?a#b"`): {
			Title: name, Fields: fields{CoverURL: new("https://covers.example.com/1.jpg?a#b")},
		},
		novel(`"readingStatus":"hiatus"`, `"uuid":5`,
			`"UUID":5`): {
			Title: name, Fields: fields{ReadingStatus: new("hiatus")}, Unknown: []string{"uuid", "UUID"},
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
		novel(`"coverUrl":"x"`):      {"coverUrl: must be an absolute https URL"},
		novel(`"coverUrl":"https://a.example/50%"`): {
			`coverUrl: has "%", which is not percent-encoding: a percent sign in a URL is %25`,
		},
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
