package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"novelgate/client"
)

// bulkService answers bulk requests: for each line it writes what its current attempt says.
type bulkService struct {
	attempts []func(key string, line int) string // "": the outcome of a created comment; cut and silence end the answer
	requests [][]string                          // the keys of the received lines
	at       []time.Duration
	start    time.Time
}

const (
	cut     = "cut"
	silence = "silence"
)

func (b *bulkService) RoundTrip(r *http.Request) (*http.Response, error) {
	if len(b.requests) == 0 {
		b.start = time.Now()
	}
	var keys []string
	scanner := bufio.NewScanner(r.Body)
	for scanner.Scan() {
		var line client.Line
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			return nil, err
		}
		keys = append(keys, line.Key)
	}
	b.requests, b.at = append(b.requests, keys), append(b.at, time.Since(b.start))
	if r.URL.Path != "/books/api/integrations/bulk" || r.Header.Get("Content-Type") != "application/x-ndjson" {
		return nil, fmt.Errorf("%s %v", r.URL, r.Header)
	}
	say := func(string, int) string { return "" }
	if n := len(b.requests); n <= len(b.attempts) {
		say = b.attempts[n-1]
	}
	reader, writer := io.Pipe()
	go func() {
		for i, key := range keys {
			switch text := say(key, i+1); text {
			case cut:
				_ = writer.CloseWithError(io.ErrUnexpectedEOF)
			case silence:
				<-r.Context().Done()
				_ = writer.CloseWithError(r.Context().Err())
			case "":
				_, _ = fmt.Fprintf(writer, `{"line":%d,"status":201,"created":true,"postId":"p-%s"}`+"\n", i+1, key)
			default:
				_, _ = fmt.Fprintln(writer, text)
			}
		}
		_ = writer.Close()
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: reader}, nil
}

func comments(n int) iter.Seq[client.Line] {
	return func(yield func(client.Line) bool) {
		for i := range n {
			if !yield(client.Line{Operation: client.OperationPosts, Key: fmt.Sprint(i), Body: client.Post{Novel: "A"}}) {
				return
			}
		}
	}
}

// collect returns the outcomes of n comments in the order of their arrival.
func collect(ctx context.Context, t testing.TB, service http.RoundTripper, n int) (got []client.Outcome, err error) {
	t.Helper()
	for outcome, failed := range newClient(t, service).Bulk(ctx, comments(n)) {
		if failed != nil {
			return got, failed
		}
		got = append(got, outcome)
	}
	return got, nil
}

// wantEach wants one outcome for each of n comments.
func wantEach(t testing.TB, got []client.Outcome, n int) {
	t.Helper()
	seen := map[int]bool{}
	for _, o := range got {
		if seen[o.Index] || o.Err == nil && o.PostID != fmt.Sprint("p-", o.Index) {
			t.Errorf("%+v", o)
		}
		seen[o.Index] = true
	}
	if len(got) != n {
		t.Errorf("%d outcomes, want %d", len(got), n)
	}
}

// refuse answers a line with a problem.
func refuse(line int, code string, retryable bool, retryAfter int) string {
	return fmt.Sprintf(`{"line":%d,"status":429,"problem":{"code":%q,"status":429,"detail":"Why.","retryable":%t,`+
		`"errors":[{"field":"f","message":"m"}]},"retryAfter":%d}`, line, code, retryable, retryAfter)
}

func TestBulkSplitsLinesIntoRequests(t *testing.T) {
	t.Parallel()
	b := &bulkService{}
	got, err := collect(t.Context(), t, b, 25_000)
	if err != nil {
		t.Fatal(err)
	}
	wantEach(t, got, 25_000)
	if len(b.requests) != 3 || len(b.requests[0]) != 10_000 || len(b.requests[2]) != 5_000 {
		t.Errorf("%d requests", len(b.requests))
	}
	large := func(yield func(client.Line) bool) {
		for range 700 { // each is more than 16 MiB / 600
			if !yield(client.Line{Key: "k", Body: client.Post{Content: strings.Repeat("x", 28_000)}}) {
				return
			}
		}
	}
	b = &bulkService{}
	for _, err := range newClient(t, b).Bulk(t.Context(), large) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(b.requests) != 2 || len(b.requests[0])+len(b.requests[1]) != 700 {
		t.Errorf("%d requests for 19 MB", len(b.requests))
	}
}

// TestBulkResumes: after any end of an answer it sends the lines again that have no outcome yet, and no others.
func TestBulkResumes(t *testing.T) {
	t.Parallel()
	at := func(line int, what string) func(string, int) string {
		return func(_ string, l int) string {
			if l == line {
				return what
			}
			return ""
		}
	}
	for name, tc := range map[string]struct {
		attempts []func(string, int) string
		sent     []string // the first and the last key of each request
		pause    time.Duration
	}{
		"cut at the first line": {[]func(string, int) string{at(1, cut)}, []string{"0 9", "0 9"}, 0},
		"cut twice":             {[]func(string, int) string{at(4, cut), at(3, cut)}, []string{"0 9", "3 9", "5 9"}, 0},
		"within a line":         {[]func(string, int) string{at(4, `{"line":4,`), at(1, "")}, []string{"0 9", "3 9"}, 0},
		"silence": {
			[]func(string, int) string{at(10, silence)}, []string{"0 9", "9 9"}, 20 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := &bulkService{attempts: tc.attempts}
				if name == "within a line" {
					b.attempts[0] = func(_ string, l int) string {
						if l < 4 {
							return ""
						}
						return map[bool]string{true: `{"line":4,`, false: cut}[l == 4]
					}
				}
				got, err := collect(t.Context(), t, b, 10)
				if err != nil {
					t.Fatal(err)
				}
				wantEach(t, got, 10)
				var sent []string
				for _, keys := range b.requests {
					sent = append(sent, keys[0]+" "+keys[len(keys)-1])
				}
				if diff := cmp.Diff(tc.sent, sent); diff != "" {
					t.Errorf("requests (-want +got)\n%s", diff)
				}
				if b.at[1] < tc.pause || b.at[1] > tc.pause+time.Second {
					t.Errorf("the second attempt came after %v", b.at[1])
				}
			})
		})
	}
}

// TestBulkIsPatientWithProgress: an answer may take long while outcomes arrive.
func TestBulkIsPatientWithProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bulkService{attempts: []func(string, int) string{func(string, int) string {
			time.Sleep(19 * time.Second)
			return ""
		}}}
		got, err := collect(t.Context(), t, b, 10)
		if err != nil || len(b.requests) != 1 {
			t.Errorf("%d requests, %v", len(b.requests), err)
		}
		wantEach(t, got, 10)
	})
}

// TestBulkRepeatsRefusedLines after the longest pause that one of them asks for, before the next request begins. A line
// that fails for good has an outcome and is not sent again.
func TestBulkRepeatsRefusedLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bulkService{attempts: []func(string, int) string{func(_ string, line int) string {
			switch line {
			case 2:
				return refuse(line, "novel_not_found", false, 0)
			case 3:
				return refuse(line, "rate_limited", true, 17)
			case 5:
				return refuse(line, "unavailable", true, 1)
			default:
				return ""
			}
		}}}
		got, err := collect(t.Context(), t, b, 10_001)
		if err != nil {
			t.Fatal(err)
		}
		wantEach(t, got, 10_001)
		if diff := cmp.Diff([][]string{{"2", "4"}, {"10000"}}, b.requests[1:]); diff != "" {
			t.Errorf("later requests (-want +got)\n%s", diff)
		}
		if b.at[1] < 17*time.Second || b.at[1] > 18*time.Second {
			t.Errorf("the lines were sent again after %v", b.at[1])
		}
		for _, o := range got {
			if o.Err != nil && (o.Index != 1 || o.Err.Code != "novel_not_found" || o.Err.Fields[0].Field != "f") {
				t.Errorf("%+v", o)
			}
		}
	})
}

// TestBulkEnds with an error that no repetition can mend, with its context, and with its consumer.
func TestBulkEnds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		service http.RoundTripper
		want    string
	}{
		"refused":       {&attempts{replies: []reply{problem(403, "capability_disabled", false, "")}}, "capability_disabled"},
		"no outcomes":   {&attempts{replies: []reply{{status: 200, body: "<html>"}}}, "not an answer"},
		"wrong order":   {&attempts{replies: []reply{{status: 200, body: `{"line":2}`}}}, "not an answer"},
		"malformed":     {&attempts{replies: []reply{{status: 200, body: `{"line":"1"}`}}}, "not an answer"},
		"too much":      {&attempts{replies: []reply{problem(413, "payload_too_large", false, "")}}, "payload_too_large"},
		"a proxy's 404": {&attempts{replies: []reply{{status: 404}}}, "404"},
	} {
		got, err := collect(t.Context(), t, tc.service, 3)
		if len(got) > 0 || err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("enough")
		time.AfterFunc(time.Minute, func() { cancel(cause) })
		a := &attempts{replies: []reply{problem(503, "unavailable", true, "")}}
		var retries int
		c, err := client.New("http://h", "k", client.WithHTTPClient(&http.Client{Transport: a}),
			client.WithRetryFunc(func(error, time.Duration) { retries++ }))
		if err != nil {
			t.Fatal(err)
		}
		for _, failed := range c.Bulk(ctx, comments(3)) {
			err = failed
		}
		if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Code != "unavailable" || !errors.Is(err, cause) {
			t.Errorf("%v", err)
		}
		if retries != len(a.keys) || retries < 5 {
			t.Errorf("%d of %d attempts were told", retries, len(a.keys))
		}
	})
	b := &bulkService{}
	n := 0
	for _, err := range newClient(t, b).Bulk(t.Context(), comments(30_000)) {
		if n++; n == 5 || err != nil {
			break
		}
	}
	if len(b.requests) != 1 {
		t.Errorf("%d requests after the consumer ended", len(b.requests))
	}
	for _, err := range newClient(t, b).Bulk(t.Context(), comments(0)) {
		t.Errorf("outcomes of nothing: %v", err)
	}
}

// TestOutcomesAreAsDescribed: an outcome has the described members, and the described answer has two of them.
func TestOutcomesAreAsDescribed(t *testing.T) {
	t.Parallel()
	d, err := load()
	if err != nil {
		t.Fatal(err)
	}
	read := members(t, client.Outcome{})
	for _, elsewhere := range []string{"line", "operation", "idempotencyKey", "status", "retryAfter"} {
		read[elsewhere] = nil // Index and the lines of the caller, or Err
	}
	described := map[string]any{}
	for member := range d.doc.Components.Schemas["BulkOutcome"].Value.Properties {
		described[member] = read[member]
	}
	if diff := cmp.Diff(described, read); diff != "" {
		t.Errorf("members (-description +client)\n%s", diff)
	}
	answered, err := calls["POST /api/integrations/bulk"](t.Context(), newClient(t, d))
	all, _ := answered.([]client.Outcome)
	if err != nil || len(all) != 2 || all[0].Slug == "" || all[1].Err == nil || all[1].Err.Fields[0].Field != "username" {
		t.Errorf("%+v, %v", all, err)
	}
}
