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
