package e2e_test

import (
	"encoding/json"
	"testing"
	"time"
)

func TestChapterNumberIsAnExactDecimal(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Chapters")
	for sent, want := range map[string]string{
		"0": "0", "0.0": "0", "-0": "0", "1": "1", "12.5": "12.5", "0.1": "0.1", "1e2": "100", "1E+6": "1000000",
		"25e-1": "2.5", "10.50": "10.5",
		"999999.999999": "999999.999999", "0.30000000000000004": "0.30000000000000004",
		"123456.7890123456": "123456.7890123456",
	} {
		t.Run(sent, func(t *testing.T) {
			t.Parallel()
			fields := Comment(title).With(Fields{"chapterNumber": json.Number(sent)})
			post := p.Import(t, Key(), fields).WantPost(t, 201)
			var same bool
			var got string
			p.Service.Projected(t, []any{&same, &got},
				"SELECT chapter_number = $2::text::numeric, chapter_number::text FROM analytics.posts WHERE post_id = $1",
				post.PostID, want)
			if !same {
				t.Errorf("stored %s, want %s", got, want)
			}
		})
	}
}

func TestOmittedChapterNumberIsNoChapter(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	for _, fields := range []Fields{{}, {"chapterNumber": nil}} {
		post := p.Import(t, Key(), Comment(Unique("No chapter")).With(fields)).WantPost(t, 201)
		var none bool
		p.Service.Projected(t, []any{&none}, "SELECT chapter_number IS NULL FROM analytics.posts WHERE post_id = $1",
			post.PostID)
		if !none {
			t.Error("there is a chapter number")
		}
	}
}

func TestTimestampIsStoredAsAnInstant(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Instants")
	for sent, want := range map[string]string{
		"2024-02-29T12:30:45Z":             "2024-02-29T12:30:45Z",
		"2024-02-29T23:30:45-05:00":        "2024-03-01T04:30:45Z",
		"2024-03-01T00:15:45+05:45":        "2024-02-29T18:30:45Z",
		"2024-02-29T12:30:45.123456+01:00": "2024-02-29T11:30:45.123456Z",
		"1969-07-20T20:17:40Z":             "1969-07-20T20:17:40Z",
	} {
		t.Run(sent, func(t *testing.T) {
			t.Parallel()
			post := p.Import(t, Key(), Comment(title).With(Fields{"timestamp": sent})).WantPost(t,
				201)
			var got time.Time
			p.Service.Projected(t, []any{&got}, "SELECT written_at FROM analytics.posts WHERE post_id = $1", post.PostID)
			if text := got.UTC().Format(time.RFC3339Nano); text != want {
				t.Errorf("stored %s, want %s", text, want)
			}
		})
	}
}

func TestOmittedTimestampIsTheTimeOfReceipt(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	before := time.Now().Truncate(time.Microsecond)
	post := p.Import(t, Key(), Comment(Unique("Now"))).WantPost(t, 201)
	after := time.Now()
	var written time.Time
	p.Service.Projected(t, []any{&written}, "SELECT written_at FROM analytics.posts WHERE post_id = $1", post.PostID)
	// Both processes read one clock; a second covers a service that keeps milliseconds or seconds.
	if written.Before(before.Add(-time.Second)) || written.After(after.Add(time.Second)) {
		t.Errorf("written at %v, want between %v and %v", written, before, after)
	}
}

func TestStoredPostTellsWhereItBelongs(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Belongs")
	novel := p.Upsert(t, Key(), Fields{"novel": title}).WantNovel(t, 201)
	parent := p.Import(t, "parent", Comment(title)).WantPost(t, 201)
	content := "  First line\r\n\tsecond line \u202eleft\u202c 🐉 \n"
	reply := p.Import(t, "reply",
		Comment(title).With(Fields{"parent_uuid": "parent", "content": content})).WantPost(t, 201)

	var thread, novelID, integration, above, text string
	p.Service.Projected(t, []any{&thread, &novelID, &integration, &above, &text},
		`SELECT thread_id::text, novel_id::text, integration_id::text, parent_post_id::text, content
		   FROM analytics.posts WHERE post_id = $1`, reply.PostID)
	for name, pair := range map[string][2]string{
		"thread":      {thread, reply.ThreadID},
		"novel":       {novelID, novel.NovelID},
		"integration": {integration, p.IntegrationID},
		"parent":      {above, parent.PostID},
		"content":     {text, content}, // kept as it came, white space and all
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s %q, want %q", name, pair[0], pair[1])
		}
	}
}
