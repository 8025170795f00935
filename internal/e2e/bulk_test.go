package e2e_test

import (
	"testing"
)

func TestBulk(t *testing.T) {
	t.Parallel()
	p := Shared(t).NewImporter(t, Fields{"linesPerMinute": 3})
	title := Unique("Bulk")
	outcomes := p.Bulk(t, NovelLine(t, "novel", Fields{"novel": title, "author": "Ada"})+
		PostLine(t, "reply", Comment(title).With(Fields{"parent_uuid": "parent"}))+"\n"+PostLine(t, "parent", Comment(title))+
		PostLine(t, "more", Comment(title))+"bad\n")
	if len(outcomes) != 5 {
		t.Fatalf("%d outcomes: %+v", len(outcomes), outcomes)
	}
	live := p.Import(t, "reply", Comment(title).With(Fields{"parent_uuid": "parent"})).WantPost(t, 200)
	if reply := outcomes[1]; reply.PostID != live.PostID || reply.ThreadID != live.ThreadID || reply.URL != live.URL ||
		reply.ParentPostID != outcomes[2].PostID || reply.Status != 201 {
		t.Errorf("line 2 is %+v, its replay %+v", reply, live)
	}
	if novel := p.Upsert(t, "novel", Fields{"novel": title}).WantNovel(t, 200); novel.NovelID != outcomes[0].NovelID {
		t.Errorf("line 1 is %+v, its replay %+v", outcomes[0], novel)
	}
	if more := outcomes[3]; more.Line != 5 || more.Problem == nil || more.Problem.Code != "rate_limited" ||
		more.RetryAfter < 1 {
		t.Errorf("beyond the limit: %+v", more)
	}
	if bad := outcomes[4]; bad.Line != 6 || bad.Status != 400 {
		t.Errorf("the last line: %+v", bad)
	}
}
