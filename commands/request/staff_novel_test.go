package request_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"novelgate/commands/request"
	"novelgate/internal/problem"
)

func TestDecodePublication(t *testing.T) {
	t.Parallel()
	got, err := request.DecodePublication([]byte(`{"reason":"ours","novel":" The  Tale ","author":" M ","synopsis":"","coverUrl":"https://example.com/c",
		"genres":["a"," b "],"language":"ja","readingStatus":"hiatus"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := request.StaffNovel{Novel: request.Novel{
		Title: "The Tale", FoldedTitle: "the tale", Author: new("M"), Synopsis: new(""),
		CoverURL: new("https://example.com/c"),
		Genres:   new([]string{"a", "b"}), Language: new("ja"), ReadingStatus: new("hiatus"),
	}, Reason: "ours"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	edit, err := request.DecodeEdit([]byte(`{"novel":null,"reason":null,"genres":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(request.StaffNovel{Novel: request.Novel{Genres: new([]string{})}}, edit); diff != "" {
		t.Errorf("edit (-want +got):\n%s", diff)
	}
}

// TestStaffFieldsAreThoseOfPartners: whatever an upsert refuses is refused here, in the same words.
func TestStaffFieldsAreThoseOfPartners(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5_001)
	for _, fields := range []string{
		`"author":""`, `"author":5`, `"author":"` + long + `"`, `"synopsis":"` + long + `"`, `"synopsis":"\u0000"`,
		`"coverUrl":"http://example.com/"`,
		`"coverUrl":"https://localhost/c"`, `"coverUrl":""`, `"genres":"a"`, `"genres":[""]`, `"genres":[1]`,
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

func TestStaffCanonical(t *testing.T) {
	t.Parallel()
	canonical := func(body string) string {
		n, err := request.DecodePublication([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return string(n.Canonical())
	}
	same := canonical(`{"novel":"T","author":"A","reason":"r"}`)
	if other := canonical(` { "reason":"r", "author":" A ", "novel":" t ", "genres":null } `); other != same {
		t.Errorf("the same command differs: %q, %q", same, other)
	}
	for _, body := range []string{
		`{"novel":"T","author":"A"}`, `{"novel":"T","author":"A","reason":"R"}`, `{"novel":"T","author":"B","reason":"r"}`,
		`{"novel":"U","author":"A","reason":"r"}`,
	} {
		if canonical(body) == same {
			t.Errorf("%s is taken for the same command", body)
		}
	}
}
