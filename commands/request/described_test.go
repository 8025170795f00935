package request_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"pgregory.net/rapid"

	"novelgate/commands/request"
	"novelgate/docs"
)

// TestBlankTextIsDescribed sends empty and blank text in every member that takes text: what is refused must be
// described as refused, and what is taken as taken.
func TestBlankTextIsDescribed(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(docs.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		schema, body string // with one verb for text
		decode       func(body []byte) error
	}{
		{"NovelUpsert", `{"novel":%s}`, decodeNovel},
		{"NovelUpsert", `{"novel":"A","author":%s}`, decodeNovel},
		{"NovelUpsert", `{"novel":"A","synopsis":%s}`, decodeNovel},
		{"NovelUpsert", `{"novel":"A","coverUrl":%s}`, decodeNovel},
		{"NovelUpsert", `{"novel":"A","genres":[%s]}`, decodeNovel},
		{"NovelUpsert", `{"novel":"A","language":%s}`, decodeNovel},
		{"PostImport", `{"uuid":%s,"username":"M","novel":"A","content":"Hm."}`, decodePost},
		{"PostImport", `{"uuid":"m","username":%s,"novel":"A","content":"Hm."}`, decodePost},
		{"PostImport", `{"uuid":"m","username":"M","novel":%s,"content":"Hm."}`, decodePost},
		{"PostImport", `{"uuid":"m","username":"M","novel":"A","content":%s}`, decodePost},
		{"PostImport", `{"uuid":"m","username":"M","novel":"A","content":"Hm.","parent_uuid":%s}`, decodePost},
	} {
		for _, text := range []string{`""`, `" "`, `" \t\n"`, `"https://covers.example.com/1.jpg"`} {
			body := fmt.Sprintf(c.body, text)
			var value any
			if err := json.Unmarshal([]byte(body), &value); err != nil {
				t.Fatal(err)
			}
			refused, described := c.decode([]byte(body)), doc.Components.Schemas[c.schema].Value.VisitJSON(value)
			if (refused == nil) != (described == nil) {
				t.Errorf("%s: %v, but described: %v", body, refused, described)
			}
		}
	}
}

// TestIdempotencyKeysAreDescribed: the pattern of the header takes what the service takes.
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
		_, refused := request.IdempotencyKey(http.Header{request.IdempotencyKeyHeader: {key}})
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

// TestCoverURLsAreDescribed: what no URL for readers looks like does not fit the pattern. Which hosts are not public is
// said in words.
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
