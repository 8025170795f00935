package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"novelgate/client"
)

// reply is the answer to one attempt.
type reply struct {
	status     int
	body       string
	retryAfter string
	location   string
	problem    bool
	repetition bool // with the headers of a repetition
	cut        bool // the connection breaks
	silent     bool // the body never arrives
}

// attempts answers requests with its replies in order, and repeats the last one.
type attempts struct {
	replies []reply
	keys    []string // of the received requests
	bodies  []string
	at      []time.Duration // since the first request
	start   time.Time
}

func (a *attempts) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	if len(a.keys) == 0 {
		a.start = time.Now()
	}
	a.keys, a.bodies = append(a.keys, r.Header.Get("Idempotency-Key")), append(a.bodies, string(body))
	a.at = append(a.at, time.Since(a.start))
	reply := a.replies[min(len(a.keys), len(a.replies))-1]
	if reply.cut {
		return nil, io.ErrUnexpectedEOF
	}
	h := http.Header{"Retry-After": {reply.retryAfter}, "Content-Type": {"text/html"}}
	if reply.location != "" {
		h.Set("Location", reply.location)
	}
	if reply.problem {
		h.Set("Content-Type", "application/problem+json")
		h.Set("X-Request-Id", "r")
	}
	if reply.repetition {
		h.Set("Idempotent-Replayed", "true")
		h.Set("Idempotency-Mismatch", "true")
	}
	content := io.Reader(strings.NewReader(reply.body))
	if reply.silent {
		content = never{r.Context()}
	}
	return &http.Response{StatusCode: reply.status, Header: h, Body: io.NopCloser(content)}, nil
}

// never is a body that never arrives.
type never struct{ ctx context.Context }

func (n never) Read([]byte) (int, error) {
	<-n.ctx.Done()
	return 0, n.ctx.Err()
}

func problem(status int, code string, retryable bool, retryAfter string) reply {
	return reply{
		status: status, problem: true, retryAfter: retryAfter,
		body: fmt.Sprintf(`{"status": %d, "code": %q, "detail": "Why.", "requestId": "r", "retryable": %t}`,
			status, code, retryable),
	}
}

func refusal(status int, code string) *client.Error {
	return &client.Error{Status: status, Code: code, Detail: "Why.", RequestID: "r"}
}

const created = `{"created": true, "postId": "p", "threadId": "t", "parentPostId": null, "url": "https://h/p"}`

func newClient(t testing.TB, transport http.RoundTripper) *client.Client {
	t.Helper()
	c, err := client.New("https://novels.example/books/", "ngp_key",
		client.WithHTTPClient(&http.Client{Transport: transport}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAttempts: a retryable failure is retried with the same key and body, and not too early.
func TestAttempts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		first    reply
		min, max time.Duration // between the attempts
	}{
		"network error":           {reply{cut: true}, 0, time.Second},
		"a body that never comes": {reply{status: 201, silent: true}, 20 * time.Second, 21 * time.Second},
		"rate_limited":            {problem(429, "rate_limited", true, "17"), 17 * time.Second, 18 * time.Second},
		"unavailable":             {problem(503, "unavailable", true, "1"), time.Second, 2 * time.Second},
		"request_timeout":         {problem(408, "request_timeout", true, ""), 0, time.Second},
		"a proxy's 502":           {reply{status: 502, body: "<html>"}, 0, time.Second},
		"a proxy's date": { // the clock of synctest starts in the year 2000
			reply{status: 503, retryAfter: "Sat, 01 Jan 2000 00:00:30 GMT"}, 30 * time.Second, 31 * time.Second,
		},
		"an error that never comes": {reply{status: 400, silent: true}, 20 * time.Second, 21 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := &attempts{replies: []reply{tc.first, {status: 200, body: created, repetition: true}}}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				post, err := newClient(t, a).Posts.Create(ctx, "evt-1", client.Post{
					UUID: "u", Username: "n", Novel: "A", Content: "1 < 2 & 3", ChapterNumber: "12.50",
				})
				if err != nil || !post.Replayed || !post.Mismatch || post.PostID != "p" || post.ParentPostID != nil {
					t.Fatalf("%+v, %v", post, err)
				}
				const body = `{"uuid":"u","username":"n","novel":"A","content":"1 < 2 & 3","chapterNumber":12.50}` + "\n"
				if diff := cmp.Diff([]string{"evt-1", "evt-1"}, a.keys); diff != "" {
					t.Errorf("keys (-want +got)\n%s", diff)
				}
				if diff := cmp.Diff([]string{body, body}, a.bodies); diff != "" {
					t.Errorf("bodies (-want +got)\n%s", diff)
				}
				if a.at[1] < tc.min || a.at[1] > tc.max {
					t.Errorf("the second attempt came after %v, want %v to %v", a.at[1], tc.min, tc.max)
				}
			})
		})
	}
}

// TestFinalAnswers: other failures are not retried.
func TestFinalAnswers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reply reply
		want  *client.Error // nil for an error of another type
	}{
		"a defect":            {problem(500, "internal", false, ""), refusal(500, "internal")},
		"a mistake":           {problem(400, "invalid_request", false, ""), refusal(400, "invalid_request")},
		"a title turned down": {problem(409, "novel_rejected", false, ""), refusal(409, "novel_rejected")},
		"a proxy's 404":       {reply{status: 404, body: "<html>"}, &client.Error{Status: 404}},
		"no answer of ours":   {reply{status: 200, body: "<html>"}, nil},
		"a redirect that would make the request a GET": {
			reply{status: 301, location: "https://moved.example/books"},
			&client.Error{Status: 301, Detail: "The service has moved to https://moved.example/books"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &attempts{replies: []reply{tc.reply}}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := newClient(t, a).Posts.Create(ctx, "evt-1", client.Post{})
			got, _ := errors.AsType[*client.Error](err)
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreUnexported(client.Error{})); diff != "" || err == nil {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
			if len(a.keys) != 1 {
				t.Errorf("%d attempts", len(a.keys))
			}
		})
	}
}

// TestContextBoundsAttempts: the client retries at growing intervals until its context ends. The error has the cause
// and the error of the last attempt.
func TestContextBoundsAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &attempts{replies: []reply{problem(503, "unavailable", true, "")}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		_, err := newClient(t, a).Novels.Upsert(ctx, "k", client.Novel{Title: "A"})
		refused, ok := errors.AsType[*client.Error](err)
		if !errors.Is(err, context.DeadlineExceeded) || !ok || refused.Code != "unavailable" {
			t.Errorf("%v", err)
		}
		if n := len(a.keys); n < 20 || n > 60 {
			t.Errorf("%d attempts in ten minutes", n)
		}
	})
}

// TestDeadlineWithinAnAttempt: the error has why the attempt before failed.
func TestDeadlineWithinAnAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &attempts{replies: []reply{problem(503, "unavailable", true, ""), {status: 200, silent: true}}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := newClient(t, a).Novels.Upsert(ctx, "k", client.Novel{Title: "A"})
		refused, ok := errors.AsType[*client.Error](err)
		if !errors.Is(err, context.DeadlineExceeded) || !ok || refused.Code != "unavailable" || len(a.keys) != 2 {
			t.Errorf("%v after %d attempts", err, len(a.keys))
		}
	})
}

// TestNoAttemptAfterTheDeadline: the client does not wait if the pause ends after the deadline.
func TestNoAttemptAfterTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &attempts{replies: []reply{problem(429, "rate_limited", true, "60")}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		_, err := newClient(t, a).Novels.Upsert(ctx, "k", client.Novel{Title: "A"})
		if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Code != "rate_limited" ||
			time.Since(start) != 0 || len(a.keys) != 1 {
			t.Errorf("%v after %v and %d attempts", err, time.Since(start), len(a.keys))
		}
	})
}

// TestLongRetryAfter: however long an answer asks to wait, the client waits.
func TestLongRetryAfter(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		"2147483648", "9223372036854775807", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT",
	} {
		synctest.Test(t, func(t *testing.T) {
			a := &attempts{replies: []reply{problem(503, "unavailable", true, value)}}
			ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
			defer cancel()
			_, err := newClient(t, a).Novels.Upsert(ctx, "k", client.Novel{Title: "A"})
			if !errors.Is(err, context.DeadlineExceeded) || len(a.keys) != 1 {
				t.Errorf("%s: %v after %d attempts", value, err, len(a.keys))
			}
		})
	}
}

// TestCancel ends the wait for the next attempt.
func TestCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a := &attempts{replies: []reply{problem(429, "rate_limited", true, "60")}}
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		_, err := newClient(t, a).Posts.Create(ctx, "k", client.Post{})
		if !errors.Is(err, context.Canceled) || len(a.keys) != 1 || time.Since(start) != time.Second {
			t.Errorf("%v after %d attempts and %v", err, len(a.keys), time.Since(start))
		}
	})
}

// TestMissingNamesAKeyOnce: a key that occurs twice, in the lists of two requests, is asked for once.
func TestMissingNamesAKeyOnce(t *testing.T) {
	t.Parallel()
	keys := make([]string, 1001)
	for i := range keys {
		keys[i] = fmt.Sprintf("key %d", i%1000)
	}
	a := &attempts{replies: []reply{{status: 200, body: `{"missing": ["key 0"]}`}}}
	missing, err := newClient(t, a).Deliveries.Missing(t.Context(), client.OperationPosts, keys)
	if diff := cmp.Diff([]string{"key 0"}, missing); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

// TestMistakesAreNotSent: the client does not send what no service can accept.
func TestMistakesAreNotSent(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"https://h:0", "https://h:65536", "https://h:99999999999999999999", "", "novels.example", "ftp://h", "https://",
		"https://h/?a=b", "https://h/%zz",
	} {
		if _, err := client.New(address, "ngp_key"); err == nil {
			t.Errorf("New takes %q", address)
		}
	}
	for _, key := range []string{"", "a b", "a\nb", "é"} {
		if _, err := client.New("https://h", key); err == nil {
			t.Errorf("New takes the key %q", key)
		}
	}
	a := &attempts{replies: []reply{{cut: true}}}
	c := newClient(t, a)
	for _, key := range []string{"", "a b", "a\r\nX: y", "é", strings.Repeat("k", 256)} {
		if _, err := c.Posts.Create(t.Context(), key, client.Post{}); err == nil {
			t.Errorf("Create takes the key %q", key)
		}
	}
	if _, err := c.Posts.Withdraw(t.Context(), "k", ""); err == nil {
		t.Error("Withdraw takes a comment without a key")
	}
	if _, err := c.Posts.Create(t.Context(), "k", client.Post{ChapterNumber: "twelve"}); err == nil {
		t.Error("Create takes a chapter that is no number")
	}
	if err := c.Webhooks.Delete(t.Context(), "a\nb"); err == nil || !strings.HasPrefix(err.Error(), "make request: ") {
		t.Errorf("Delete of a malformed id: %v", err)
	}
	if len(a.keys) > 0 {
		t.Errorf("%q were sent", a.keys)
	}
}
