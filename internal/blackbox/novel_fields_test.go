package blackbox_test

import (
	"fmt"
	"strings"
	"testing"

	"novelgate/internal/blackbox"
)

// astral is a character that takes one code point, two UTF-16 units and four bytes.
const astral = "🐉"

func TestNovelFieldsAtTheirBounds(t *testing.T) {
	t.Parallel()
	p := blackbox.Shared(t).NewPartner(t)
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
		name := blackbox.Unique("T") + " "
		return name + strings.Repeat(character, length-len(name))
	}
	for name, test := range map[string]struct {
		fields blackbox.Fields
		field  string // at fault; "" for none
	}{
		"novel missing":             {blackbox.Fields{}, "novel"},
		"novel null":                {blackbox.Fields{"novel": nil}, "novel"},
		"novel empty":               {blackbox.Fields{"novel": ""}, "novel"},
		"novel of white space":      {blackbox.Fields{"novel": " \t\n\u3000"}, "novel"},
		"novel at most":             {blackbox.Fields{"novel": title(300, "x")}, ""},
		"novel too long":            {blackbox.Fields{"novel": title(301, "x")}, "novel"},
		"novel at most, astral":     {blackbox.Fields{"novel": title(300, astral)}, ""},
		"novel too long, astral":    {blackbox.Fields{"novel": title(301, astral)}, "novel"},
		"novel at most, combining":  {blackbox.Fields{"novel": title(300, "\u0301")}, ""},
		"novel too long, combining": {blackbox.Fields{"novel": title(301, "\u0301")}, "novel"},
		"novel number":              {blackbox.Fields{"novel": 1984}, "novel"},
		"novel array":               {blackbox.Fields{"novel": []string{"x"}}, "novel"},
		"novel object":              {blackbox.Fields{"novel": map[string]any{}}, "novel"},
		"novel boolean":             {blackbox.Fields{"novel": true}, "novel"},
		"author empty":              {blackbox.Fields{"author": ""}, "author"},
		"author of white space":     {blackbox.Fields{"author": "  "}, "author"},
		"author one character":      {blackbox.Fields{"author": "A"}, ""},
		"author at most":            {blackbox.Fields{"author": strings.Repeat("a", 120)}, ""},
		"author too long":           {blackbox.Fields{"author": strings.Repeat("a", 121)}, "author"},
		"author at most, astral":    {blackbox.Fields{"author": strings.Repeat(astral, 120)}, ""},
		"author too long, astral":   {blackbox.Fields{"author": strings.Repeat(astral, 121)}, "author"},
		"author number":             {blackbox.Fields{"author": 1}, "author"},
		"author null":               {blackbox.Fields{"author": nil}, ""},
		"synopsis empty":            {blackbox.Fields{"synopsis": ""}, ""},
		"synopsis at most":          {blackbox.Fields{"synopsis": strings.Repeat("s", 5000)}, ""},
		"synopsis too long":         {blackbox.Fields{"synopsis": strings.Repeat("s", 5001)}, "synopsis"},
		"synopsis at most, astral":  {blackbox.Fields{"synopsis": strings.Repeat(astral, 5000)}, ""},
		"synopsis too long, astral": {blackbox.Fields{"synopsis": strings.Repeat(astral, 5001)}, "synopsis"},
		"synopsis boolean":          {blackbox.Fields{"synopsis": false}, "synopsis"},
		"synopsis null":             {blackbox.Fields{"synopsis": nil}, ""},
		"coverUrl at most":          {blackbox.Fields{"coverUrl": url(2000)}, ""},
		"coverUrl too long":         {blackbox.Fields{"coverUrl": url(2001)}, "coverUrl"},
		"coverUrl empty":            {blackbox.Fields{"coverUrl": ""}, "coverUrl"},
		"coverUrl number":           {blackbox.Fields{"coverUrl": 1}, "coverUrl"},
		"coverUrl null":             {blackbox.Fields{"coverUrl": nil}, ""},
		"genres empty":              {blackbox.Fields{"genres": []string{}}, ""},
		"genres null":               {blackbox.Fields{"genres": nil}, ""},
		"genres at most":            {blackbox.Fields{"genres": genres(20, strings.Repeat("g", 50))}, ""},
		"genres too many":           {blackbox.Fields{"genres": genres(21, "g")}, "genres"},
		"genres entry empty":        {blackbox.Fields{"genres": []string{"a", ""}}, "genres[1]"},
		"genres entry too long": {
			blackbox.Fields{"genres": []string{"a", "b", "c", strings.Repeat("g", 51)}}, "genres[3]",
		},
		"genres entry at most, astral":  {blackbox.Fields{"genres": []string{strings.Repeat(astral, 50)}}, ""},
		"genres entry too long, astral": {blackbox.Fields{"genres": []string{strings.Repeat(astral, 51)}}, "genres[0]"},
		"genres entry null":             {blackbox.Fields{"genres": []any{nil}}, "genres[0]"},
		"genres entry number":           {blackbox.Fields{"genres": []any{"a", 1}}, "genres[1]"},
		"genres string":                 {blackbox.Fields{"genres": "Fantasy"}, "genres"},
		"genres object":                 {blackbox.Fields{"genres": map[string]any{"0": "Fantasy"}}, "genres"},
		"language empty":                {blackbox.Fields{"language": ""}, ""},
		"language at most":              {blackbox.Fields{"language": strings.Repeat("l", 50)}, ""},
		"language too long":             {blackbox.Fields{"language": strings.Repeat("l", 51)}, "language"},
		"language at most, astral":      {blackbox.Fields{"language": strings.Repeat(astral, 50)}, ""},
		"language too long, astral":     {blackbox.Fields{"language": strings.Repeat(astral, 51)}, "language"},
		"language array":                {blackbox.Fields{"language": []string{"en"}}, "language"},
		"language null":                 {blackbox.Fields{"language": nil}, ""},
		"readingStatus ongoing":         {blackbox.Fields{"readingStatus": "ongoing"}, ""},
		"readingStatus completed":       {blackbox.Fields{"readingStatus": "completed"}, ""},
		"readingStatus hiatus":          {blackbox.Fields{"readingStatus": "hiatus"}, ""},
		"readingStatus null":            {blackbox.Fields{"readingStatus": nil}, ""},
		"readingStatus other":           {blackbox.Fields{"readingStatus": "dropped"}, "readingStatus"},
		"readingStatus wrong case":      {blackbox.Fields{"readingStatus": "Ongoing"}, "readingStatus"},
		"readingStatus empty":           {blackbox.Fields{"readingStatus": ""}, "readingStatus"},
		"readingStatus white space":     {blackbox.Fields{"readingStatus": "ongoing "}, "readingStatus"},
		"readingStatus number":          {blackbox.Fields{"readingStatus": 1}, "readingStatus"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fields := test.fields
			if _, set := fields["novel"]; !set && test.field != "novel" {
				fields = fields.With(blackbox.Fields{"novel": blackbox.Unique("Bounds")})
			}
			response := p.Upsert(t, blackbox.Key(), fields)
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
	p := blackbox.Shared(t).NewPartner(t)
	name := blackbox.Unique("T")
	title := name + strings.Repeat("x", 300-len(name))
	upsert := p.Request(blackbox.NovelsPath, blackbox.Key(), blackbox.Fields{
		"novel": "  " + title + "\n\u3000", "author": "\t" + strings.Repeat("a", 120) + " ",
	}.JSON(t))
	upsert.Beyond = true // a schema cannot say "after trimming"
	p.Service.Send(t, upsert).WantNovel(t, 201)
	if got := p.Service.Novel(t, title); got.Novel != title || got.Author != strings.Repeat("a", 120) {
		t.Errorf("stored %q by %q, want both trimmed", got.Novel, got.Author)
	}
	comment := p.Request(blackbox.PostsPath, blackbox.Key(), blackbox.Comment(" "+title+" ").With(blackbox.Fields{
		"username": "\u00a0" + strings.Repeat("u", 50) + " ",
	}).JSON(t))
	comment.Beyond = true
	p.Service.Send(t, comment).WantPost(t, 201)
}

func TestEveryFieldAtFaultIsListed(t *testing.T) {
	t.Parallel()
	p := blackbox.Shared(t).NewPartner(t)
	for name, test := range map[string]struct {
		path   string
		fields blackbox.Fields
		want   []string
	}{
		"novels": {
			blackbox.NovelsPath,
			blackbox.Fields{
				"novel": "", "author": 5, "synopsis": strings.Repeat("s", 5001), "coverUrl": "http://example.com/a.png",
				"genres": []any{"a", "", 5}, "language": strings.Repeat("l", 51), "readingStatus": "paused",
			},
			[]string{"novel", "author", "synopsis", "coverUrl", "genres[1]", "genres[2]", "language", "readingStatus"},
		},
		"posts": {
			blackbox.PostsPath,
			blackbox.Fields{
				"username": "", "content": "<b>x</b>", "chapterNumber": -1, "timestamp": "yesterday", "parent_uuid": 7,
			},
			[]string{"uuid", "username", "novel", "content", "chapterNumber", "timestamp", "parent_uuid"},
		},
		"posts, nothing sent": {blackbox.PostsPath, blackbox.Fields{}, []string{"uuid", "username", "novel", "content"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			problem := p.Service.Send(t, p.Request(test.path, blackbox.Key(), test.fields.JSON(t))).WantProblem(t, 400,
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
	p := blackbox.Shared(t).NewPartner(t)
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
			response := p.Upsert(t, blackbox.Key(), blackbox.Fields{"novel": blackbox.Unique("Cover"), "coverUrl": url})
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
	p := blackbox.Shared(t).NewPartner(t)
	problem := p.Upsert(t, blackbox.Key(), blackbox.Fields{"novel": strings.Repeat("x", 301)}).WantInvalid(t, "novel")
	if !strings.Contains(fmt.Sprint(problem.Errors), "300") {
		t.Errorf("the message %q does not say that 300 is the limit", problem.Detail)
	}
}
