package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Novel is the body of a successful upsert.
type Novel struct {
	Created   bool   `json:"created"`
	Updated   bool   `json:"updated"`
	Canonical bool   `json:"canonical"`
	NovelID   string `json:"novelId"`
	Slug      string `json:"slug"`
	URL       string `json:"url"`
}

// Post is the body of a successful import.
type Post struct {
	Created      bool    `json:"created"`
	PostID       string  `json:"postId"`
	ThreadID     string  `json:"threadId"`
	ParentPostID *string `json:"parentPostId"`
	URL          string  `json:"url"`
}

// Parent returns the parent's ID, or "" at the top level.
func (p Post) Parent() string {
	if p.ParentPostID == nil {
		return ""
	}
	return *p.ParentPostID
}

// Problem is the body of every error.
type Problem struct {
	Type      string         `json:"type"`
	Title     string         `json:"title"`
	Status    int            `json:"status"`
	Detail    string         `json:"detail"`
	Code      string         `json:"code"`
	RequestID string         `json:"requestId"`
	Retryable bool           `json:"retryable"`
	Field     string         `json:"field"`
	Errors    []InvalidField `json:"errors"`
}

// InvalidField is one member at fault.
type InvalidField struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// WantNovel wants a successful upsert with the status.
func (r Response) WantNovel(t testing.TB, status int) Novel {
	t.Helper()
	return want[Novel](t, r, status)
}

// WantPost wants a successful import with the status.
func (r Response) WantPost(t testing.TB, status int) Post {
	t.Helper()
	return want[Post](t, r, status)
}

// WantProblem wants an error with the status and the code.
func (r Response) WantProblem(t testing.TB, status int, code string) Problem {
	t.Helper()
	problem := want[Problem](t, r, status)
	if problem.Code != code {
		t.Errorf("code %q, want %q\n%s", problem.Code, code, r.Body)
	}
	if problem.Status != status {
		t.Errorf("the body says status %d, the answer is %d", problem.Status, status)
	}
	if id := r.Header.Get("X-Request-Id"); problem.RequestID != id {
		t.Errorf("the body says request %q, the header says %q", problem.RequestID, id)
	}
	return problem
}

// WantInvalid wants invalid_request for the field, named by `field`, `errors` and the message.
func (r Response) WantInvalid(t testing.TB, field string) Problem {
	t.Helper()
	problem := r.WantProblem(t, 400, "invalid_request")
	if problem.Field != field {
		t.Errorf("field %q, want %q\n%s", problem.Field, field, r.Body)
	}
	if !strings.Contains(problem.Detail, field) {
		t.Errorf("the message does not name %s\n%s", field, r.Body)
	}
	if len(problem.Errors) == 0 || problem.Errors[0].Field != problem.Field {
		t.Errorf("errors does not begin with %s\n%s", problem.Field, r.Body)
	}
	return problem
}

// WantReplayed wants the two headers that mark a replay, or their absence.
func (r Response) WantReplayed(t testing.TB, replayed, mismatch bool) {
	t.Helper()
	type marks struct{ Replayed, Mismatch string }
	got := marks{r.Header.Get("Idempotent-Replayed"), r.Header.Get("Idempotency-Mismatch")}
	wanted := marks{}
	if replayed {
		wanted.Replayed = "true"
	}
	if mismatch {
		wanted.Mismatch = "true"
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("headers of a replay (-want +got)\n%s", diff)
	}
}

// WantJSON wants the status and decodes the answer into into.
func (r Response) WantJSON(t testing.TB, status int, into any) {
	t.Helper()
	if r.Status != status {
		t.Fatalf("status %d, want %d\n%s", r.Status, status, r.Body)
	}
	if err := json.Unmarshal(r.Body, into); err != nil {
		t.Fatalf("decode the answer: %v\n%s", err, r.Body)
	}
}

func want[T any](t testing.TB, r Response, status int) T {
	t.Helper()
	var body T
	r.WantJSON(t, status, &body)
	return body
}
