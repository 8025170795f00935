package request_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"novelgate/commands/request"
	"novelgate/docs"
)

// TestBlankTextIsDescribed sends empty and blank text in every member that takes text: what is refused must be described as refused, and
// what is taken as taken.
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

func decodeNovel(body []byte) error {
	_, err := request.DecodeNovel(body)
	return err
}

func decodePost(body []byte) error {
	_, err := request.DecodePost(body, received)
	return err
}
