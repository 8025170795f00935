package e2e_test

import (
	"bytes"
	"encoding/json"
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

// NewImporter registers an integration with all capabilities and a high limit of lines.
func (s *Service) NewImporter(t testing.TB, settings ...Fields) *Partner {
	t.Helper()
	return s.NewPartner(t, append([]Fields{{
		"capabilities": []string{"novels", "posts", "import"}, "linesPerMinute": 10_000_000,
	}}, settings...)...)
}

// bulkRequest returns the request that sends lines.
func (p *Partner) bulkRequest(lines string) Request {
	return Request{
		Method: http.MethodPost, Path: bulkPath, Bearer: p.APIKey, ContentType: "application/x-ndjson", Body: []byte(lines),
	}
}

// Bulk sends lines, and returns their outcomes.
func (p *Partner) Bulk(t testing.TB, lines string) []BulkOutcome {
	t.Helper()
	response := p.Service.Send(t, p.bulkRequest(lines))
	if response.Status != http.StatusOK {
		t.Fatalf("bulk request: %d %s", response.Status, response.Body)
	}
	return bulkOutcomes(t, response.Body)
}

// bulkOutcomes reads the outcomes in an answer, and compares them with docs/openapi.yaml.
func bulkOutcomes(t testing.TB, answer []byte) (all []BulkOutcome) {
	t.Helper()
	described := testdb.Must(description())(t).doc.Components.Schemas["BulkOutcome"].Value
	for line := range bytes.Lines(answer) {
		var o BulkOutcome
		var value any
		if err := json.Unmarshal(line, &o); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		_ = json.Unmarshal(line, &value) // the same text
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
