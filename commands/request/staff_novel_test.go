package request_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/commands/request"
	"novelgate/internal/problem"
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

func TestDecodePublication(t *testing.T) {
	t.Parallel()
	got, err := request.DecodePublication([]byte(`{"reason":"ours","novel":" The  Tale ","author":" M ","synopsis":"","coverUrl":"https://example.com/c",
		"genres":["a"," b "],"language":"ja","readingStatus":"hiatus"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := request.StaffNovel{Novel: request.Novel{
		Title: "The Tale", FoldedTitle: "the tale", Fields: fields{
			Author: new("M"), Synopsis: new(""), CoverURL: new("https://example.com/c"),
			Genres: new([]string{"a", "b"}), Language: new("ja"), ReadingStatus: new("hiatus"),
		},
	}, Reason: "ours"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	edit, err := request.DecodeEdit([]byte(`{"novel":null,"reason":null,"genres":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	want = request.StaffNovel{Novel: request.Novel{Fields: fields{Genres: new([]string{})}}}
	if diff := cmp.Diff(want, edit); diff != "" {
		t.Errorf("edit (-want +got):\n%s", diff)
	}
}

// TestStaffFieldsAreThoseOfPartners: staff commands refuse the same fields as an upsert, with the same texts.
func TestStaffFieldsAreThoseOfPartners(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5_001)
	for _, fields := range []string{
		`"author":""`, `"author":5`, `"author":"` + long + `"`, `"synopsis":"` + long + `"`, `"synopsis":"\u0000"`,
		`"coverUrl":"http://example.com/"`,
		`"coverUrl":"https://localhost/c"`, `"coverUrl":" "`, `"genres":"a"`, `"genres":[""]`, `"genres":[1]`,
		`"language":"` + long + `"`,
		`"readingStatus":"paused"`, `"author":"a","author":"b"`, `"Author":"a"`, `"author":"\ud800"`,
		`"author":"","genres":[1],"language":7`, `"author":`,
	} {
		_, partner := request.DecodeNovel([]byte(`{"novel":"T",` + fields + `}`))
		_, publication := request.DecodePublication([]byte(`{"novel":"T",` + fields + `}`))
		var a, b *problem.Error
		if !errors.As(partner, &a) || !errors.As(publication, &b) {
			t.Errorf("%.60s: partners %v, staff %v", fields, partner, publication)
			continue
		}
		if diff := cmp.Diff(a.Error(), b.Error()); diff != "" {
			t.Errorf("%.60s (-partners +staff):\n%s", fields, diff)
		}
		if _, err := request.DecodeEdit([]byte(`{` + fields + `}`)); err == nil {
			t.Errorf("%.60s: an edit takes it", fields)
		}
	}
}

func TestStaffBodiesRefused(t *testing.T) {
	t.Parallel()
	publication := func(body []byte) error { _, err := request.DecodePublication(body); return err }
	edit := func(body []byte) error { _, err := request.DecodeEdit(body); return err }
	for name, c := range map[string]struct {
		decode func([]byte) error
		body   string
		fields []string
	}{
		"no title":                {publication, `{}`, []string{"novel"}},
		"null title":              {publication, `{"novel":null}`, []string{"novel"}},
		"blank title":             {publication, `{"novel":" "}`, []string{"novel"}},
		"unknown member":          {publication, `{"novel":"T","state":"published"}`, []string{"state"}},
		"unknown and wrong":       {publication, `{"novel":"T","owner":{},"author":""}`, []string{"owner", "author"}},
		"reason in another case":  {publication, `{"novel":"T","Reason":"x"}`, []string{"Reason"}},
		"a reason that is a list": {publication, `{"novel":"T","reason":[]}`, []string{"reason"}},
		"a reason with NUL":       {publication, `{"novel":"T","reason":"\u0000"}`, []string{"reason"}},
		"a title":                 {edit, `{"novel":"T","author":"A"}`, []string{"novel"}},
		"a title of a kind":       {edit, `{"novel":5}`, []string{"novel"}},
		"a title in another case": {edit, `{"Novel":"T"}`, []string{"Novel"}},
		"unknown, edited":         {edit, `{"title":"T"}`, []string{"title"}},
		"not an object":           {edit, `[]`, nil},
	} {
		err := c.decode([]byte(c.body))
		var refused *problem.Error
		if !errors.As(err, &refused) || refused.Code != problem.CodeInvalidRequest {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, field := range refused.Fields {
			got = append(got, field.Field)
		}
		if diff := cmp.Diff(c.fields, got); diff != "" {
			t.Errorf("%s: fields (-want +got):\n%s", name, diff)
		}
	}
}
