package request_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"novelgate/commands/request"
)

func TestPostCanonical(t *testing.T) {
	t.Parallel()
	canonical := func(body string, at time.Time) []byte {
		p, err := request.DecodePost([]byte(body), at)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		return p.Canonical()
	}
	base := post(`"chapterNumber":1.5`, `"parent_uuid":"k"`)
	want := canonical(base, received)
	for _, same := range []string{
		post(`"parent_uuid":"k"`, `"chapterNumber":15e-1`, `"more":1`),
		strings.ReplaceAll(base, "The Wandering Inn", " THE wandering  inn"),
		strings.ReplaceAll(base, "Mia", " Mia "),
		strings.ReplaceAll(base, "Nice", `\u004eice`),
	} {
		if got := canonical(same, received.Add(time.Hour)); !bytes.Equal(got, want) {
			t.Errorf("%s: %q, want %q", same, got, want)
		}
	}
	seen := map[string]string{string(want): base}
	for _, other := range []string{
		post(), post(`"chapterNumber":0`), post(`"parent_uuid":""`), post(`"parent_uuid":"1.5"`), post(`"chapterNumber":1.5`),
		post(`"chapterNumber":1.5`, `"parent_uuid":"k"`, `"timestamp":"2024-05-01T10:00:00Z"`),
		post(`"chapterNumber":1.5`, `"parent_uuid":"k"`, `"timestamp":"2024-05-01T10:00:00.000001Z"`),
		strings.ReplaceAll(base, "Mia", "mia"), strings.ReplaceAll(base, "Nice.", "Nice. "),
		strings.ReplaceAll(base, "u-1", "U-1"),
		post(`"uuid":"u-1M"`, `"username":"ia"`),
	} {
		key := string(canonical(other, received))
		if twin, ok := seen[key]; ok {
			t.Errorf("%s and %s have the same bytes", twin, other)
		}
		seen[key] = other
	}
	given := canonical(post(`"timestamp":"2024-05-01T10:00:00Z"`), received)
	if again := canonical(post(`"timestamp":"2024-05-01T12:00+02:00"`), received); !bytes.Equal(given, again) {
		t.Errorf("the same instant gives %q and %q", given, again)
	}
}

func TestNovelCanonical(t *testing.T) {
	t.Parallel()
	canonical := func(body string) string {
		n, err := request.DecodeNovel([]byte(body))
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		return string(n.Canonical())
	}
	if a, b := canonical(novel()), canonical(novel(`"author":null`, `"x":1`, `"novel":"the  WANDERING inn "`)); a != b {
		t.Errorf("%q, %q", a, b)
	}
	seen := map[string]string{}
	for _, body := range []string{
		novel(), novel(`"author":"a"`), novel(`"synopsis":"a"`), novel(`"synopsis":""`), novel(`"language":"a"`),
		novel(`"language":""`),
		novel(`"genres":[]`), novel(`"genres":["a"]`), novel(`"genres":["a","b"]`), novel(`"genres":["b","a"]`),
		novel(`"genres":["ab"]`),
		novel(`"readingStatus":"hiatus"`), novel(`"language":"hiatus"`), novel(`"coverUrl":"https://a.example"`),
		novel(`"novel":"Other"`),
	} {
		key := canonical(body)
		if twin, ok := seen[key]; ok {
			t.Errorf("%s and %s have the same bytes", twin, body)
		}
		seen[key] = body
	}
}
