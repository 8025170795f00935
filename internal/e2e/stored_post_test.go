package e2e_test

import (
	"encoding/json"
	"testing"
	"time"
)

func TestStoredPostTellsWhereItBelongs(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewPartner(t)
	title := Unique("Belongs")
	novel := p.Upsert(t, Key(), Fields{"novel": title}).WantNovel(t, 201)
	before := time.Now().Truncate(time.Microsecond)
	parent := p.Import(t, "parent", Comment(title)).WantPost(t, 201)
	after := time.Now()
	content := "  First line\r\n\tsecond line \u202eleft\u202c 🐉 \n"
	reply := p.Import(t, "reply", Comment(title).With(Fields{
		"parent_uuid": "parent", "content": content, "chapterNumber": json.Number("0.30000000000000004"),
		"timestamp": "1969-07-20T15:17:40.123456-05:00",
	})).WantPost(t, 201)

	var thread, novelID, integration, above, text, chapter string
	var written time.Time
	p.Service.Projected(t, []any{&thread, &novelID, &integration, &above, &text, &chapter, &written},
		`SELECT thread_id::text, novel_id::text, integration_id::text, parent_post_id::text, content, chapter_number::text,
		   written_at FROM analytics.posts WHERE post_id = $1`, reply.PostID)
	for name, pair := range map[string][2]string{
		"thread":      {thread, reply.ThreadID},
		"novel":       {novelID, novel.NovelID},
		"integration": {integration, p.IntegrationID},
		"parent":      {above, parent.PostID},
		"content":     {text, content}, // kept as it came, white space and all
		"chapter":     {chapter, "0.30000000000000004"},
		"time":        {written.UTC().Format(time.RFC3339Nano), "1969-07-20T20:17:40.123456Z"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s %q, want %q", name, pair[0], pair[1])
		}
	}
	var none bool
	p.Service.Projected(t, []any{&none, &written},
		"SELECT chapter_number IS NULL, written_at FROM analytics.posts WHERE post_id = $1", parent.PostID)
	// Both processes read one clock; a second covers a service that keeps milliseconds or seconds.
	if !none || written.Before(before.Add(-time.Second)) || written.After(after.Add(time.Second)) {
		t.Errorf("no chapter: %v; written at %v, want between %v and %v", none, written, before, after)
	}
}
