package request_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"novelgate/commands/request"
	"novelgate/internal/problem"
	"novelgate/internal/title"
)

func FuzzDecodePost(f *testing.F) {
	for _, seed := range []string{
		post(), post(`"chapterNumber":1.5e1`, `"timestamp":"2024-05-01T10:00:00,5+0200"`, `"parent_uuid":"k"`),
		post(`"content":"<b>"`), post(`"a":"\ud800"`), `{"uuid":1}`, `[]`, `{`, post(`"Novel":1`), post(`"novel":"ſ \u0000"`),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		original := bytes.Clone(body)
		p, err := request.DecodePost(body, received)
		if !bytes.Equal(original, body) {
			t.Fatalf("%q was changed to %q", original, body)
		}
		if err != nil {
			checkRefusal(t, err)
			return
		}
		if !json.Valid(body) {
			t.Errorf("%q is no JSON for encoding/json", body)
		}
		checkText(t, p.AuthorUUID, 1, 255)
		checkText(t, p.Username, 1, 50)
		checkText(t, p.Title, 1, 300)
		checkText(t, p.Content, 1, 20_000)
		if what, found := request.FindHTML(p.Content); found {
			t.Errorf("content with %s is accepted", what)
		}
		if p.Title != title.Clean(p.Title) || p.Username != strings.TrimSpace(p.Username) {
			t.Errorf("title %q or username %q is not clean", p.Title, p.Username)
		}
		if p.Chapter != nil {
			if !json.Valid([]byte(*p.Chapter)) || len(*p.Chapter) > 28 {
				t.Errorf("chapter %q", *p.Chapter)
			}
			if again, ok := chapter(t, p.Chapter.String()); !ok || again != p.Chapter.String() {
				t.Errorf("chapter %q is not canonical: %q", *p.Chapter, again)
			}
		}
		at := p.WrittenAt
		if at.After(received.Add(5*time.Minute)) || at.Year() < 1 || at.Location() != time.UTC || at.Nanosecond()%1000 != 0 {
			t.Errorf("written at %s", at)
		}
		if again, err := request.DecodePost(body, received); err != nil || !bytes.Equal(again.Canonical(), p.Canonical()) {
			t.Errorf("%q decodes differently a second time: %v", body, err)
		}
	})
}

func FuzzDecodeNovel(f *testing.F) {
	for _, seed := range []string{
		novel(), novel(`"coverUrl":"https://covers.example.com/1.jpg"`, `"genres":["a"," b"]`, `"readingStatus":"ongoing"`),
		novel(`"coverUrl":"https://[::1]/"`), novel(`"genres":[null,[],{}]`),
		novel(`"author":" "`, `"synopsis":""`, `"language":" "`),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		n, err := request.DecodeNovel(body)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		if !json.Valid(body) {
			t.Errorf("%q is no JSON for encoding/json", body)
		}
		checkText(t, n.Title, 1, 300)
		for _, field := range []struct {
			text      *string
			low, high int
		}{{n.Author, 1, 120}, {n.Synopsis, 0, 5000}, {n.CoverURL, 0, 2000}, {n.Language, 0, 50}} {
			if field.text != nil {
				checkText(t, *field.text, field.low, field.high)
			}
		}
		if n.Genres != nil {
			if len(*n.Genres) > 20 {
				t.Errorf("%d genres", len(*n.Genres))
			}
			for _, genre := range *n.Genres {
				checkText(t, genre, 1, 50)
			}
		}
		_ = n.Canonical()
	})
}

func checkRefusal(t *testing.T, err error) {
	t.Helper()
	p := refusal(t, err)
	if p.Code != problem.CodeInvalidRequest || p.Detail == "" || len(p.Fields) > 40 || !utf8.ValidString(p.Detail) {
		t.Errorf("%v", err)
	}
}

func checkText(t *testing.T, s string, low, high int) {
	t.Helper()
	if n := utf8.RuneCountInString(s); n < low || n > high || !utf8.ValidString(s) || strings.Contains(s, "\x00") {
		t.Errorf("%q (%d characters) is accepted, limits %d to %d", s, n, low, high)
	}
}
