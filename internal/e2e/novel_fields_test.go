package e2e_test

import (
	"strings"
	"testing"
)

func TestLengthsCountAfterTrimming(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	name := Unique("T")
	title := name + strings.Repeat("x", 300-len(name))
	upsert := p.Request(NovelsPath, Key(), Fields{
		"novel": "  " + title + "\n\u3000", "author": "\t" + strings.Repeat("a", 120) + " ",
	}.JSON(t))
	upsert.Beyond = true // a schema cannot say "after trimming"
	p.Service.Send(t, upsert).WantNovel(t, 201)
	if got := p.Service.Novel(t, title); got.Novel != title || got.Author != strings.Repeat("a", 120) {
		t.Errorf("stored %q by %q, want both trimmed", got.Novel, got.Author)
	}
	comment := p.Request(PostsPath, Key(), Comment(" "+title+" ").With(Fields{
		"username": "\u00a0" + strings.Repeat("u", 50) + " ",
	}).JSON(t))
	comment.Beyond = true
	p.Service.Send(t, comment).WantPost(t, 201)
}

func TestEveryFieldAtFaultIsListed(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	for name, test := range map[string]struct {
		path   string
		fields Fields
		want   []string
	}{
		"novels": {
			NovelsPath,
			Fields{
				"novel": "", "author": 5, "synopsis": strings.Repeat("s", 5001), "coverUrl": "http://example.com/a.png",
				"genres": []any{"a", "", 5}, "language": strings.Repeat("l", 51), "readingStatus": "paused",
			},
			[]string{"novel", "author", "synopsis", "coverUrl", "genres[1]", "genres[2]", "language", "readingStatus"},
		},
		"posts": {
			PostsPath,
			Fields{
				"username": "", "content": "<b>x</b>", "chapterNumber": -1, "timestamp": "yesterday", "parent_uuid": 7,
			},
			[]string{"uuid", "username", "novel", "content", "chapterNumber", "timestamp", "parent_uuid"},
		},
		"posts, nothing sent": {PostsPath, Fields{}, []string{"uuid", "username", "novel", "content"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			problem := p.Service.Send(t, p.Request(test.path, Key(), test.fields.JSON(t))).WantProblem(t, 400,
				"invalid_request")
			listed := map[string]string{}
			for _, invalid := range problem.Errors {
				listed[invalid.Field] = invalid.Message
			}
			for _, field := range test.want {
				if listed[field] == "" {
					t.Errorf("errors has no message for %s: %v", field, problem.Errors)
				}
			}
			if len(problem.Errors) != len(test.want) {
				t.Errorf("errors has %d entries, want %d: %v", len(problem.Errors), len(test.want), problem.Errors)
			}
			if len(problem.Errors) > 0 && problem.Field != problem.Errors[0].Field {
				t.Errorf("field %q, want the first of errors, %q", problem.Field, problem.Errors[0].Field)
			}
		})
	}
}
