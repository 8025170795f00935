package problem_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/internal/problem"
)

// write renders err and returns status, headers and the decoded body.
func write(t *testing.T, err error) (int, http.Header, map[string]any) {
	t.Helper()
	w := httptest.NewRecorder()
	for _, name := range []string{"Content-Encoding", "Etag", "Last-Modified", "Location"} {
		w.Header().Set(name, "stale")
	}
	problem.Write(w, "req-1", err)
	res := w.Result()
	defer func() { _ = res.Body.Close() }()
	raw, readErr := io.ReadAll(res.Body)
	if readErr != nil {
		t.Fatal(readErr)
	}
	var body map[string]any
	if err := json.Unmarshal(raw, &body); err != nil {
		t.Fatalf("body %q: %v", raw, err)
	}
	if got, want := res.Header.Get("Content-Length"), fmt.Sprint(len(raw)); got != want {
		t.Errorf("Content-Length %s, want %s", got, want)
	}
	return res.StatusCode, res.Header, body
}

func TestWrite(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err       *problem.Error
		status    int
		title     string
		retryable bool
		header    map[string]string
	}{
		{
			problem.New(problem.CodeUnauthorized, "No key."), 401, "Unauthorized", false,
			map[string]string{"WWW-Authenticate": "Bearer"},
		},
		{problem.New(problem.CodeCapabilityDisabled, "No."), 403, "Forbidden", false, nil},
		{problem.InvalidRequest(problem.FieldError{Field: "novel", Message: "is required"}), 400, "Bad Request", false, nil},
		{problem.New(problem.CodeInvalidIdempotencyKey, "No."), 400, "Bad Request", false, nil},
		{problem.ErrNovelNotFound, 404, "Not Found", false, nil},
		{problem.ErrNovelRejected, 409, "Conflict", false, nil},
		{problem.ErrAuthorBlocked, 403, "Forbidden", false, nil},
		{problem.ErrRequestTimeout, 408, "Request Timeout", true, map[string]string{"Retry-After": "1"}},
		{problem.PayloadTooLarge(32_768), 413, "Content Too Large", false, nil},
		{problem.UnsupportedMediaType("application/json", "text/plain"), 415, "Unsupported Media Type", false, nil},
		{problem.New(problem.CodeForbidden, "No."), 403, "Forbidden", false, nil},
		{problem.New(problem.CodeInvalidTransition, "No."), 409, "Conflict", false, nil},
		{problem.New(problem.CodeConflict, "No."), 409, "Conflict", false, nil},
		{problem.RateLimited(1500 * time.Millisecond), 429, "Too Many Requests", true, map[string]string{"Retry-After": "2"}},
		{problem.Unavailable(0), 503, "Service Unavailable", true, map[string]string{"Retry-After": "1"}},
		{problem.ErrNotFound, 404, "Not Found", false, nil},
		{problem.ErrGone, 410, "Gone", false, nil},
		{problem.MethodNotAllowed("GET", "HEAD"), 405, "Method Not Allowed", false, map[string]string{"Allow": "GET, HEAD"}},
		{problem.Internal(io.ErrUnexpectedEOF), 500, "Internal Server Error", false, nil},
	} {
		t.Run(string(tc.err.Code), func(t *testing.T) {
			t.Parallel()
			status, header, body := write(t, fmt.Errorf("handle request: %w", tc.err))
			want := map[string]any{
				"type": "about:blank", "title": tc.title, "status": float64(tc.status), "detail": tc.err.Detail,
				"code": string(tc.err.Code), "requestId": "req-1", "retryable": tc.retryable,
			}
			if len(tc.err.Fields) > 0 {
				want["field"] = "novel"
				want["errors"] = []any{map[string]any{"field": "novel", "message": "is required"}}
			}
			if diff := cmp.Diff(want, body); diff != "" {
				t.Error(diff)
			}
			if status != tc.status || tc.err.Code.Status() != tc.status || tc.err.Code.Retryable() != tc.retryable ||
				tc.err.Code.Title() != tc.title {
				t.Errorf("status %d, want %d", status, tc.status)
			}
			expected := map[string]string{
				"Content-Type": "application/problem+json", "Cache-Control": "no-store",
				"Content-Encoding": "", "Etag": "", "Last-Modified": "", "Location": "",
				"WWW-Authenticate": "", "Retry-After": "", "Allow": "",
			}
			for name, value := range tc.header {
				expected[name] = value
			}
			for name, value := range expected {
				if got := header.Get(name); got != value {
					t.Errorf("%s: %q, want %q", name, got, value)
				}
			}
			if !slices.Contains(problem.All(), tc.err.Code) {
				t.Errorf("All lacks %s", tc.err.Code)
			}
		})
	}
	if got := len(problem.All()); got != 19 {
		t.Errorf("All has %d codes, this test 19", got)
	}
}

func TestWriteHidesUnknownErrors(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errors.New("password=hunter2"), problem.Internal(errors.New("password=hunter2")), nil} {
		w := httptest.NewRecorder()
		problem.Write(w, "req-1", err)
		if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "hunter2") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

func TestWriteSurvivesInvalidUTF8(t *testing.T) {
	t.Parallel()
	status, _, body := write(t, problem.UnsupportedMediaType("", "\xff").WithDetail("got \xff\x00\u2028</script>"))
	if status != http.StatusUnsupportedMediaType || body["detail"] != "got \ufffd\x00\u2028</script>" {
		t.Errorf("%d %v", status, body)
	}
}

func TestRetryAfterIsNeverEarly(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]string{
		-time.Second: "1", 0: "1", 1: "1", time.Second: "1", time.Second + 1: "2",
		59*time.Second + 999*time.Millisecond: "60", time.Minute: "60",
	} {
		if _, header, _ := write(t, problem.RateLimited(wait)); header.Get("Retry-After") != want {
			t.Errorf("%s: Retry-After %s, want %s", wait, header.Get("Retry-After"), want)
		}
	}
}

func TestInvalidRequestDetail(t *testing.T) {
	t.Parallel()
	one, two := problem.FieldError{Field: "uuid", Message: "is required"},
		problem.FieldError{Field: "novel", Message: "is required"}
	for want, e := range map[string]*problem.Error{
		"The request is not valid.":               problem.InvalidRequest(),
		"uuid: is required.":                      problem.InvalidRequest(one),
		"uuid: is required. 1 more under errors.": problem.InvalidRequest(one, two),
		"It is empty.":                            problem.MalformedBody("It is empty."),
	} {
		if e.Detail != want || e.Code != problem.CodeInvalidRequest {
			t.Errorf("%s %q, want %q", e.Code, e.Detail, want)
		}
	}
}

func TestErrorChain(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("import post: %w", problem.Unavailable(time.Second).WithCause(io.ErrClosedPipe))
	if !errors.Is(err, problem.Unavailable(0)) || errors.Is(err, problem.ErrNotFound) {
		t.Error("errors.Is does not compare codes")
	}
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Error("the cause is not in the chain")
	}
	if p, ok := errors.AsType[*problem.Error](err); !ok || p.RetryAfter != time.Second {
		t.Errorf("%v", p)
	}
	if !strings.Contains(err.Error(), "unavailable") || !strings.Contains(err.Error(), io.ErrClosedPipe.Error()) {
		t.Errorf("the text for logs is %q", err)
	}
	if _, _, body := write(t, err); strings.Contains(fmt.Sprint(body), io.ErrClosedPipe.Error()) {
		t.Errorf("the cause is shown: %v", body)
	}
	if got := problem.From(io.EOF); got.Code != problem.CodeInternal || !errors.Is(got, io.EOF) {
		t.Errorf("From(io.EOF) = %v", got)
	}
	if problem.From(nil) != nil {
		t.Error("From(nil) is an error")
	}
	if got := problem.Code("other").Status(); got != http.StatusInternalServerError {
		t.Errorf("an unknown code has status %d", got)
	}
}
