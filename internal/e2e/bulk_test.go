package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"novelgate/internal/testdb"
)

const bulkPath = "/api/integrations/bulk"

// BulkOutcome is the outcome of a line.
type BulkOutcome struct {
	Line           int      `json:"line"`
	IdempotencyKey string   `json:"idempotencyKey"`
	Status         int      `json:"status"`
	Replayed       bool     `json:"replayed"`
	PostID         string   `json:"postId"`
	ThreadID       string   `json:"threadId"`
	ParentPostID   string   `json:"parentPostId"`
	NovelID        string   `json:"novelId"`
	URL            string   `json:"url"`
	Problem        *Problem `json:"problem"`
	RetryAfter     int      `json:"retryAfter"`
}

// Bulk sends lines, and returns their outcomes, which it compares with docs/openapi.yaml.
func (p *Partner) Bulk(t testing.TB, lines string) (all []BulkOutcome) {
	t.Helper()
	request := p.Request(bulkPath, "", []byte(lines))
	request.ContentType = "application/x-ndjson"
	response := p.Service.Send(t, request)
	if response.Status != http.StatusOK {
		t.Fatalf("bulk request: %d %s", response.Status, response.Body)
	}
	described := testdb.Must(description())(t).doc.Components.Schemas["BulkOutcome"].Value
	for line := range bytes.Lines(response.Body) {
		var o BulkOutcome
		var value any
		if err := errors.Join(json.Unmarshal(line, &o), json.Unmarshal(line, &value)); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if err := described.VisitJSON(value); err != nil {
			t.Errorf("an outcome is not what docs/openapi.yaml says: %v\n%s", err, line)
		}
		all = append(all, o)
	}
	return all
}

// PostLine returns a line with a comment.
func PostLine(t testing.TB, key string, post Fields) string {
	t.Helper()
	return string(Fields{"operation": "posts", "idempotencyKey": key, "body": post}.JSON(t)) + "\n"
}

// NovelLine returns a line with an upsert.
func NovelLine(t testing.TB, key string, novel Fields) string {
	t.Helper()
	return string(Fields{"operation": "novels", "idempotencyKey": key, "body": novel}.JSON(t)) + "\n"
}

// TestBulk: lines have the outcomes of live commands. Package bulk tests their order, limits and failures.
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
