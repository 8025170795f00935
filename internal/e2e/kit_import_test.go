package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"novelgate/internal/testdb"
)

// ImportsPath is where partners open imports.
const ImportsPath = "/api/integrations/imports"

// BulkImport is an import for its partner.
type BulkImport struct {
	ImportID      string `json:"importId"`
	State         string `json:"state"`
	Lines         int    `json:"lines"`
	Created       int    `json:"created"`
	Updated       int    `json:"updated"`
	Unchanged     int    `json:"unchanged"`
	Replayed      int    `json:"replayed"`
	Failed        int    `json:"failed"`
	Waiting       int    `json:"waiting"`
	Pending       int    `json:"pending"`
	ParentMissing int    `json:"parentMissing"`

	partner *Partner
}

// LineResult is the outcome of a line.
type LineResult struct {
	Line           int      `json:"line"`
	IdempotencyKey string   `json:"idempotencyKey"`
	Status         string   `json:"status"`
	Mismatch       bool     `json:"mismatch"`
	PostID         string   `json:"postId"`
	ThreadID       string   `json:"threadId"`
	ParentPostID   string   `json:"parentPostId"`
	NovelID        string   `json:"novelId"`
	URL            string   `json:"url"`
	Warnings       []string `json:"warnings"`
	UnknownMembers []string `json:"unknownMembers"`
	Problem        *Problem `json:"problem"`
}

// NewImporter registers an integration with all capabilities and a high limit of lines.
func (s *Service) NewImporter(t testing.TB, settings ...Fields) *Partner {
	t.Helper()
	return s.NewPartner(t, append([]Fields{{
		"capabilities": []string{"novels", "posts", "import"}, "linesPerMinute": 10_000_000,
	}}, settings...)...)
}

// OpenImport opens an import.
func (p *Partner) OpenImport(t testing.TB) *BulkImport {
	t.Helper()
	i := &BulkImport{partner: p}
	open := Request{Method: http.MethodPost, Path: ImportsPath, Bearer: p.APIKey, Key: Key()}
	p.Service.Send(t, open).WantJSON(t, 201, i)
	return i
}

func (i *BulkImport) request(method, path string) Request {
	return Request{Method: method, Path: ImportsPath + "/" + i.ImportID + path, Bearer: i.partner.APIKey}
}

// Part returns the request that sends text as a part.
func (i *BulkImport) Part(offset int, text string) Request {
	r := i.request(http.MethodPut, "/lines?offset="+strconv.Itoa(offset))
	r.ContentType, r.Body = "application/x-ndjson", []byte(text)
	return r
}

// Put sends text as the next part.
func (i *BulkImport) Put(t testing.TB, text string) {
	t.Helper()
	response := i.sendPart(t, i.Part(i.Lines, text))
	if response.Status != http.StatusNoContent {
		t.Fatalf("part at %d: %d %s", i.Lines, response.Status, response.Body)
	}
	next := testdb.Must(strconv.Atoi(response.Header.Get("Next-Offset")))(t)
	i.Lines = next
}

// sendPart sends a part, and repeats it while other tests use up the memory for bodies or the limit of queries.
func (i *BulkImport) sendPart(t testing.TB, part Request) (response Response) {
	t.Helper()
	testdb.Eventually(t, "there is room for the part", func() bool {
		response = i.partner.Ask(t, part)
		return response.Status != http.StatusServiceUnavailable
	})
	return response
}

// Show returns the current import.
func (i *BulkImport) Show(t testing.TB) BulkImport {
	t.Helper()
	shown := BulkImport{partner: i.partner}
	i.partner.Ask(t, i.request(http.MethodGet, "")).WantJSON(t, http.StatusOK, &shown)
	return shown
}

// Complete completes the import.
func (i *BulkImport) Complete(t testing.TB) {
	t.Helper()
	i.partner.Ask(t, i.request(http.MethodPost, "/complete")).WantJSON(t, http.StatusOK, &BulkImport{})
}

// Finish completes the import and waits for its end.
func (i *BulkImport) Finish(t testing.TB) (ended BulkImport) {
	t.Helper()
	i.Complete(t)
	i.await(t, "the import is completed", func(now BulkImport) bool {
		ended = now
		return now.State == "completed"
	})
	return ended
}

// read sends a query.
func (i *BulkImport) read(t testing.TB, path string) Response {
	t.Helper()
	return i.partner.Ask(t, i.request(http.MethodGet, path))
}

// await polls until ok returns true.
func (i *BulkImport) await(t testing.TB, what string, ok func(now BulkImport) bool) {
	t.Helper()
	testdb.Eventually(t, what, func() bool { return ok(i.Show(t)) })
}

// Results returns all outcomes, page by page.
func (i *BulkImport) Results(t testing.TB, query string) (all []LineResult) {
	t.Helper()
	loaded := testdb.Must(description())(t)
	result := loaded.doc.Components.Schemas["ImportResult"].Value
	for after := ""; ; {
		response := i.read(t, "/results?limit=700"+query+after)
		for line := range strings.Lines(string(response.Body)) {
			var r LineResult
			var value any
			if err := errors.Join(json.Unmarshal([]byte(line), &r), json.Unmarshal([]byte(line), &value)); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			if err := result.VisitJSON(value); err != nil {
				t.Errorf("an outcome is not what docs/openapi.yaml says: %v\n%s", err, line)
			}
			all = append(all, r)
		}
		next := response.Header.Get("Next-After")
		if next == "" {
			return all
		}
		after = "&after=" + next
	}
}

// FailedLines returns the lines that failed.
func (i *BulkImport) FailedLines(t testing.TB) string {
	t.Helper()
	var all bytes.Buffer
	for after := ""; ; {
		response := i.read(t, "/failed?limit=700"+after)
		if response.Status != http.StatusOK {
			t.Fatalf("failed lines: %d %s", response.Status, response.Body)
		}
		all.Write(response.Body)
		next := response.Header.Get("Next-After")
		if next == "" {
			return all.String()
		}
		after = "&after=" + next
	}
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
