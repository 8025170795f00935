package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// commands/request tests what is no strict JSON in full.
func TestBodiesThatAreNoJSONObject(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	for name, body := range map[string]string{
		"empty":          "",
		"array":          `[{"novel":"x"}]`,
		"null":           `null`,
		"cut short":      `{"novel":"x"`,
		"trailing comma": `{"novel":"x",}`,
		"two objects":    `{"novel":"x"}{"novel":"y"}`,
		"form":           `novel=x`,
		"bytes":          "\x00\x01\x02\xff",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, path := range []string{NovelsPath, PostsPath} {
				request := p.Request(path, Key(), []byte(body))
				problem := p.Service.Send(t, request).WantProblem(t, 400, "invalid_request")
				if problem.Detail == "" {
					t.Error("nothing says what is wrong")
				}
			}
		})
	}
}

func TestNoFieldIsNamedWhenTheBodyIsNoObject(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	for _, body := range []string{"", "[]", `"x"`, "null", "x"} {
		problem := p.Service.Send(t, p.Request(PostsPath, Key(), []byte(body))).WantProblem(t, 400,
			"invalid_request")
		if problem.Field != "" {
			t.Errorf("body %q: field %q, want none", body, problem.Field)
		}
	}
}

func TestStrictMembers(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	valid := strings.TrimSuffix(string(Comment(Unique("Strict")).JSON(t)), "}")
	for name, test := range map[string]struct{ added, field string }{
		"duplicate":                {`"content":"again"`, "content"},
		"wrong case":               {`"chapternumber":1`, "chapternumber"},
		"lone surrogate":           {`"parent_uuid":"\ud83d"`, "parent_uuid"},
		"NUL":                      {`"parent_uuid":"a\u0000b"`, "parent_uuid"},
		"invalid UTF-8":            {"\"parent_uuid\":\"\xff\"", "parent_uuid"},
		"number as a string":       {`"chapterNumber":"5"`, "chapterNumber"},
		"duplicate in unknown":     {`"x":{"y":1,"y":2}`, ""},
		"invalid UTF-8 in unknown": {"\"x\":\"\xff\"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := []byte(valid + "," + test.added + "}")
			problem := p.Service.Send(t, p.Request(PostsPath, Key(), body)).WantProblem(t, 400,
				"invalid_request")
			if test.field != "" && !strings.Contains(problem.Detail, test.field) {
				t.Errorf("the message %q does not name %s", problem.Detail, test.field)
			}
		})
	}
}

func TestNULIsRefusedInEveryString(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	for _, field := range []string{"novel", "author", "synopsis", "language", "coverUrl", "readingStatus"} {
		body := Fields{"novel": Unique("NUL")}.With(Fields{field: "https://a.example.com/\x00"})
		p.Upsert(t, Key(), body).WantInvalid(t, field)
	}
	p.Upsert(t, Key(), Fields{
		"novel":  Unique("NUL"),
		"genres": []string{"a", "b\x00"},
	}).WantInvalid(t, "genres[1]")
	for _, field := range []string{"uuid", "username", "novel", "content", "parent_uuid", "timestamp"} {
		body := Comment(Unique("NUL")).With(Fields{field: "a\x00b"})
		p.Import(t, Key(), body).WantInvalid(t, field)
	}
}

func TestUnknownMembersAreIgnored(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	for name, added := range map[string]Fields{
		"scalar":          {"likes": 5},
		"null":            {"likes": nil},
		"object":          {"meta": map[string]any{"novel": 1, "content": nil}},
		"other operation": {"synopsis": 5, "author": false},
		"server's own":    {"novelId": "x", "created": "x", "postId": 1},
		"empty name":      {"": 1},
		"prototype":       {"__proto__": map[string]any{"admin": true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p.Import(t, Key(), Comment(Unique("Unknown members")).With(added)).WantPost(t, 201)
		})
	}
}

func TestJSONIsReadAsJSON(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	for name, format := range map[string]string{
		"white space":    " \t\r\n{ \"novel\" :\n%q\t} \r\n\t ",
		"escaped name":   `{"\u006eovel":%q}`,
		"escaped slash":  `{"novel":%q,"synopsis":"a\/b"}`,
		"surrogate pair": `{"novel":%q,"synopsis":"\ud83d\udc09"}`,
		"big number":     `{"novel":%q,"x":1e999999}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := p.Request(NovelsPath, Key(), fmt.Appendf(nil, format, Unique("JSON")))
			request.Beyond = name == "big number" // too big for the validator, not for the service
			p.Service.Send(t, request).WantNovel(t, 201)
		})
	}
}

func TestMediaTypes(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	for contentType, status := range map[string]int{
		"application/json":                          201,
		"application/json; charset=utf-8":           201,
		"application/json;charset=UTF-8":            201,
		`application/json; charset="utf-8"; x=y`:    201,
		"Application/JSON":                          201,
		"":                                          415,
		"text/plain":                                415,
		"text/json":                                 415,
		"application/x-www-form-urlencoded":         415,
		"multipart/form-data; boundary=x":           415,
		"application/jsonp":                         415,
		"application/json-patch+json":               415,
		"application/problem+json":                  415,
		"application/*":                             415,
		"json":                                      415,
		"application/xml; alt=\"application/json\"": 415,
	} {
		t.Run(contentType, func(t *testing.T) {
			t.Parallel()
			request := p.Request(NovelsPath, Key(),
				Fields{"novel": Unique("Media type")}.JSON(t))
			request.ContentType = contentType
			response := p.Service.Send(t, request)
			wantStatus(t, response, status, "unsupported_media_type")
		})
	}
	t.Run("sent twice", func(t *testing.T) {
		t.Parallel()
		request := p.Request(NovelsPath, Key(), []byte("{}"))
		request.ContentType = ""
		request.Header = http.Header{"Content-Type": {"text/plain", "application/json"}}
		p.Service.Send(t, request).WantProblem(t, 415, "unsupported_media_type")
	})
}
