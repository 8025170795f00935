package e2e_test

import (
	"fmt"
	"strings"
	"testing"
)

// astral is a character that takes one code point, two UTF-16 units and four bytes.
const astral = "🐉"

func TestNovelFieldsAtTheirBounds(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	genres := func(n int, entry string) []string {
		list := make([]string, n)
		for i := range list {
			list[i] = entry
		}
		return list
	}
	url := func(length int) string {
		const start = "https://cdn.example.com/"
		return start + strings.Repeat("c", length-len(start))
	}
	title := func(length int, character string) string { // unique, and exactly so many characters
		name := Unique("T") + " "
		return name + strings.Repeat(character, length-len(name))
	}
	for name, test := range map[string]struct {
		fields Fields
		field  string // at fault; "" for none
	}{
		"novel missing":             {Fields{}, "novel"},
		"novel null":                {Fields{"novel": nil}, "novel"},
		"novel empty":               {Fields{"novel": ""}, "novel"},
		"novel of white space":      {Fields{"novel": " \t\n\u3000"}, "novel"},
		"novel at most":             {Fields{"novel": title(300, "x")}, ""},
		"novel too long":            {Fields{"novel": title(301, "x")}, "novel"},
		"novel at most, astral":     {Fields{"novel": title(300, astral)}, ""},
		"novel too long, astral":    {Fields{"novel": title(301, astral)}, "novel"},
		"novel at most, combining":  {Fields{"novel": title(300, "\u0301")}, ""},
		"novel too long, combining": {Fields{"novel": title(301, "\u0301")}, "novel"},
		"novel number":              {Fields{"novel": 1984}, "novel"},
		"novel array":               {Fields{"novel": []string{"x"}}, "novel"},
		"novel object":              {Fields{"novel": map[string]any{}}, "novel"},
		"novel boolean":             {Fields{"novel": true}, "novel"},
		"author empty":              {Fields{"author": ""}, "author"},
		"author of white space":     {Fields{"author": "  "}, "author"},
		"author one character":      {Fields{"author": "A"}, ""},
		"author at most":            {Fields{"author": strings.Repeat("a", 120)}, ""},
		"author too long":           {Fields{"author": strings.Repeat("a", 121)}, "author"},
		"author at most, astral":    {Fields{"author": strings.Repeat(astral, 120)}, ""},
		"author too long, astral":   {Fields{"author": strings.Repeat(astral, 121)}, "author"},
		"author number":             {Fields{"author": 1}, "author"},
		"author null":               {Fields{"author": nil}, ""},
		"synopsis empty":            {Fields{"synopsis": ""}, ""},
		"synopsis at most":          {Fields{"synopsis": strings.Repeat("s", 5000)}, ""},
		"synopsis too long":         {Fields{"synopsis": strings.Repeat("s", 5001)}, "synopsis"},
		"synopsis at most, astral":  {Fields{"synopsis": strings.Repeat(astral, 5000)}, ""},
		"synopsis too long, astral": {Fields{"synopsis": strings.Repeat(astral, 5001)}, "synopsis"},
		"synopsis boolean":          {Fields{"synopsis": false}, "synopsis"},
		"synopsis null":             {Fields{"synopsis": nil}, ""},
		"coverUrl at most":          {Fields{"coverUrl": url(2000)}, ""},
		"coverUrl too long":         {Fields{"coverUrl": url(2001)}, "coverUrl"},
		"coverUrl empty":            {Fields{"coverUrl": ""}, "coverUrl"},
		"coverUrl number":           {Fields{"coverUrl": 1}, "coverUrl"},
		"coverUrl null":             {Fields{"coverUrl": nil}, ""},
		"genres empty":              {Fields{"genres": []string{}}, ""},
		"genres null":               {Fields{"genres": nil}, ""},
		"genres at most":            {Fields{"genres": genres(20, strings.Repeat("g", 50))}, ""},
		"genres too many":           {Fields{"genres": genres(21, "g")}, "genres"},
		"genres entry empty":        {Fields{"genres": []string{"a", ""}}, "genres[1]"},
		"genres entry too long": {
			Fields{"genres": []string{"a", "b", "c", strings.Repeat("g", 51)}}, "genres[3]",
		},
		"genres entry at most, astral":  {Fields{"genres": []string{strings.Repeat(astral, 50)}}, ""},
		"genres entry too long, astral": {Fields{"genres": []string{strings.Repeat(astral, 51)}}, "genres[0]"},
		"genres entry null":             {Fields{"genres": []any{nil}}, "genres[0]"},
		"genres entry number":           {Fields{"genres": []any{"a", 1}}, "genres[1]"},
		"genres string":                 {Fields{"genres": "Fantasy"}, "genres"},
		"genres object":                 {Fields{"genres": map[string]any{"0": "Fantasy"}}, "genres"},
		"language empty":                {Fields{"language": ""}, ""},
		"language at most":              {Fields{"language": strings.Repeat("l", 50)}, ""},
		"language too long":             {Fields{"language": strings.Repeat("l", 51)}, "language"},
		"language at most, astral":      {Fields{"language": strings.Repeat(astral, 50)}, ""},
		"language too long, astral":     {Fields{"language": strings.Repeat(astral, 51)}, "language"},
		"language array":                {Fields{"language": []string{"en"}}, "language"},
		"language null":                 {Fields{"language": nil}, ""},
		"readingStatus ongoing":         {Fields{"readingStatus": "ongoing"}, ""},
		"readingStatus completed":       {Fields{"readingStatus": "completed"}, ""},
		"readingStatus hiatus":          {Fields{"readingStatus": "hiatus"}, ""},
		"readingStatus null":            {Fields{"readingStatus": nil}, ""},
		"readingStatus other":           {Fields{"readingStatus": "dropped"}, "readingStatus"},
		"readingStatus wrong case":      {Fields{"readingStatus": "Ongoing"}, "readingStatus"},
		"readingStatus empty":           {Fields{"readingStatus": ""}, "readingStatus"},
		"readingStatus white space":     {Fields{"readingStatus": "ongoing "}, "readingStatus"},
		"readingStatus number":          {Fields{"readingStatus": 1}, "readingStatus"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fields := test.fields
			if _, set := fields["novel"]; !set && test.field != "novel" {
				fields = fields.With(Fields{"novel": Unique("Bounds")})
			}
			response := p.Upsert(t, Key(), fields)
			if test.field == "" {
				response.WantNovel(t, 201)
				return
			}
			response.WantInvalid(t, test.field)
		})
	}
}

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

func TestCoverURL(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	for url, valid := range map[string]bool{ // commands/request tests which hosts are public in full
		"https://cdn.example.com:8443/a/b.png?size=2&x=%20": true,
		"HTTPS://CDN.Example.COM/Cover.JPG":                 true,
		"https://93.184.216.34/cover.jpg":                   true,
		"http://cdn.example.com/cover.jpg":                  false,
		"javascript:alert(1)":                               false,
		"/cover.jpg":                                        false,
		"https://user:password@cdn.example.com/x":           false,
		"https://LocalHost:8443/x":                          false,
		"https://127.0.0.1/x":                               false,
		"https://192.168.1.1/x":                             false,
		"https://169.254.169.254/latest/meta":               false,
		"https://[::1]/x":                                   false,
		"https://2130706433/x":                              false, // 127.0.0.1 to a browser
	} {
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			response := p.Upsert(t, Key(), Fields{"novel": Unique("Cover"), "coverUrl": url})
			if valid {
				response.WantNovel(t, 201)
				return
			}
			response.WantInvalid(t, "coverUrl")
		})
	}
}

func TestMessagesNameTheLimit(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	problem := p.Upsert(t, Key(), Fields{"novel": strings.Repeat("x", 301)}).WantInvalid(t, "novel")
	if !strings.Contains(fmt.Sprint(problem.Errors), "300") {
		t.Errorf("the message %q does not say that 300 is the limit", problem.Detail)
	}
}
