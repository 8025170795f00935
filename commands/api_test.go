package commands_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"novelgate/aggregates/author"
	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/commands"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/internal/auth"
)

// TestTimeout blocks each dependency of a request in turn: the answer is a 503 in time.
func TestTimeout(t *testing.T) {
	t.Parallel()
	hang := func(ctx context.Context) error { <-ctx.Done(); return fmt.Errorf("wait: %w", ctx.Err()) }
	for name, spoil := range map[string]func(*fake){
		"authentication": func(f *fake) { f.authenticate = hang },
		"committer": func(f *fake) {
			f.execute = func(ctx context.Context, _ *committer.Command) (committer.Result, error) {
				<-ctx.Done()
				return committer.Result{}, committer.ErrOutcomeUnknown
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			spoil(f)
			handler := routes(newAPI(f, 100*time.Millisecond, time.Now))
			start := time.Now()
			got := send(t, handler, http.MethodPost, postPath, postBody)
			if took := time.Since(start); took > time.Minute {
				t.Errorf("the answer took %s", took)
			}
			if got.status != http.StatusServiceUnavailable || got.body["code"] != "unavailable" ||
				got.body["retryable"] != true || got.header.Get("Retry-After") != "1" {
				t.Errorf("answer: %+v", got)
			}
		})
	}
}

// TestErrors maps every error to a problem, wherever it arises.
func TestErrors(t *testing.T) {
	t.Parallel()
	type row struct {
		err        error
		status     int
		code       string
		retryAfter string
	}
	anywhere := []row{ // an unreachable database, or a defect
		{fmt.Errorf("read: %w", io.ErrUnexpectedEOF), 503, "unavailable", "1"},
		{context.DeadlineExceeded, 503, "unavailable", "1"},
		{&pgconn.PgError{Code: "57P03"}, 503, "unavailable", "1"},
		{&pgconn.PgError{Code: "42P01", Message: "a secret of the inside"}, 500, "internal", ""},
		{errors.New("a secret of the inside"), 500, "internal", ""},
	}
	for place, c := range map[string]struct {
		spoil func(*fake, error)
		rows  []row
	}{
		"authentication": {
			func(f *fake, err error) { f.authenticate = func(context.Context) error { return err } },
			[]row{
				{auth.ErrMalformed, 401, "unauthorized", ""},
				{auth.ErrUnknown, 401, "unauthorized", ""},
				{auth.ErrExpired, 401, "unauthorized", ""},
			},
		},
		"committer": {func(f *fake, err error) {
			f.execute = func(context.Context, *committer.Command) (committer.Result, error) { return committer.Result{}, err }
		}, []row{
			{fmt.Errorf("replay: %w", novel.ErrRejected), 409, "novel_rejected", ""},
			{post.ErrNovelNotFound, 404, "novel_not_found", ""},
			{post.ErrNovelPending, 404, "novel_not_found", ""},
			{post.ErrNovelRejected, 404, "novel_not_found", ""},
			{committer.ErrUnderReview, 404, "novel_not_found", ""},
			{author.ErrBlocked, 403, "author_blocked", ""},
			{committer.ErrKeyMisused, 400, "invalid_idempotency_key", ""},
			{&committer.RateLimitedError{Limit: 5, RetryAfter: 2500 * time.Millisecond}, 429, "rate_limited", "3"},
			{fmt.Errorf("%w: wait", ratelimit.ErrShareExceeded), 429, "rate_limited", "1"},
			{committer.ErrQueueFull, 503, "unavailable", "1"},
			{committer.ErrClosed, 503, "unavailable", "1"},
			{fmt.Errorf("%w: acquire", committer.ErrUnavailable), 503, "unavailable", "1"},
			{fmt.Errorf("%w: commit", committer.ErrOutcomeUnknown), 503, "unavailable", "1"},
		}},
	} {
		for _, want := range append(c.rows, anywhere...) {
			f := newFake()
			c.spoil(f, want.err)
			handler, _ := serve(t, f)
			got := send(t, handler, http.MethodPost, postPath, postBody)
			if got.status != want.status || got.body["code"] != want.code || got.header.Get("Retry-After") != want.retryAfter ||
				got.body["requestId"] != got.header.Get("X-Request-Id") ||
				got.header.Get("Content-Type") != "application/problem+json" ||
				(want.status == 401) != (got.header.Get("WWW-Authenticate") == "Bearer") {
				t.Errorf("%s, %v: %+v", place, want.err, got)
			}
			if strings.Contains(fmt.Sprint(got.body), "secret") || place != "committer" && f.calls.Load() != 0 {
				t.Errorf("%s, %v: the cause is shown, or the committer called: %v", place, want.err, got.body)
			}
		}
	}
}

// TestWarnings: a command that succeeds tells what was left out of it.
func TestWarnings(t *testing.T) {
	t.Parallel()
	for body, want := range map[string][]string{
		`{"novel":"A title"}`:                     nil,
		`{"novel":"A title","cover":1,"tags":[]}`: {"unknown_member cover", "unknown_member tags"},
		`{"novel":"A title","uuid":"1","username":"a","content":"b","parent_uuid":"lost"}`: {"parent_not_found parent_uuid"},
		`{"novel":"A title","uuid":"1","username":"a","content":"b","parentUuid":"x","parent_uuid":"lost"}`: {
			"unknown_member parentUuid", "parent_not_found parent_uuid",
		},
		`{"novel":"A title","uuid":"1","username":"a","content":"b","parent_uuid":"found"}`: nil,
	} {
		f := newFake()
		f.execute = func(context.Context, *committer.Command) (result committer.Result, err error) {
			if strings.Contains(body, "found") {
				result.ParentPostID = &postID
			}
			return result, nil
		}
		path := novelPath
		if strings.Contains(body, "content") {
			path = postPath
		}
		handler, _ := serve(t, f)
		var got []string
		warnings, _ := send(t, handler, http.MethodPost, path, body).body["warnings"].([]any)
		for _, w := range warnings {
			w, _ := w.(map[string]any)
			got = append(got, fmt.Sprint(w["code"], " ", w["field"]))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
}

// TestAnswers tests the answers to results of the committer.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const address = "https://host.example/books/novels/a-title"
	comment := address + "/discussion?post=" + postID.String() + "#post-" + postID.String()
	for name, tc := range map[string]struct {
		result   committer.Result
		status   int
		location string
		replayed string
		mismatch string
		want     map[string]any
	}{
		"created": {
			result: committer.Result{Outcome: novel.Created}, status: 201, location: address,
			want: map[string]any{"created": true, "updated": false, "canonical": false},
		},
		"updated": {
			result: committer.Result{Outcome: novel.Updated}, status: 200,
			want: map[string]any{"created": false, "updated": true, "canonical": false},
		},
		"canonical": {
			result: committer.Result{Outcome: novel.Canonical}, status: 200,
			want: map[string]any{"created": false, "updated": false, "canonical": true},
		},
		"foreign": {
			result: committer.Result{Outcome: novel.Foreign}, status: 200,
			want: map[string]any{"created": false, "updated": false, "canonical": false},
		},
		"replayed novel": {
			result: committer.Result{Outcome: novel.Updated, Replayed: true, Mismatch: true}, status: 200, replayed: "true",
			mismatch: "true",
			want:     map[string]any{"created": false, "updated": true, "canonical": false},
		},
		"post": {
			result: committer.Result{PostID: postID}, status: 201, location: comment,
			want: map[string]any{"created": true, "parentPostId": nil},
		},
		"threaded post": {
			result: committer.Result{PostID: postID, ParentPostID: &novelID}, status: 201, location: comment,
			want: map[string]any{"created": true, "parentPostId": novelID.String()},
		},
		"replayed post": {
			result: committer.Result{PostID: postID, Replayed: true}, status: 200, replayed: "true",
			want: map[string]any{"created": false, "parentPostId": nil},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			path, body := novelPath, novelBody
			tc.result.Slug = "a-title"
			if tc.result.PostID == postID {
				path, body = postPath, postBody
				tc.result.ThreadID = threadID
				tc.want["postId"], tc.want["threadId"], tc.want["url"] = postID.String(), threadID.String(), comment
			} else {
				tc.result.NovelID = novelID
				tc.want["novelId"], tc.want["slug"], tc.want["url"] = novelID.String(), "a-title", address
			}
			f.execute = func(context.Context, *committer.Command) (committer.Result, error) { return tc.result, nil }
			handler, metrics := serve(t, f)
			got := send(t, handler, http.MethodPost, path, body)
			if diff := cmp.Diff(tc.want, got.body); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if got.status != tc.status || got.header.Get("Content-Type") != "application/json" ||
				got.header.Get("Location") != tc.location ||
				got.header.Get("Idempotent-Replayed") != tc.replayed || got.header.Get("Idempotency-Mismatch") != tc.mismatch {
				t.Errorf("answer: %+v", got)
			}
			operation, outcome := strings.TrimPrefix(path, "/api/integrations/"), name
			if tc.replayed != "" {
				outcome = "replayed"
			} else if path == postPath {
				outcome = "created"
			}
			counter := fmt.Sprintf("novelgate_commands_total{operation=%q,outcome=%q} 1\n", operation, outcome)
			if found := exposed(t, metrics...); !strings.Contains(found, counter) {
				t.Errorf("no %s: %s", counter, found)
			}
		})
	}
}

// TestPanic: a panic of a handler is answered with a problem and counted. Unknown paths and methods do not become
// labels.
func TestPanic(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.execute = func(context.Context, *committer.Command) (committer.Result, error) { panic("a mistake") }
	handler, metrics := serve(t, f)
	got := send(t, handler, http.MethodPost, novelPath, novelBody)
	if got.status != http.StatusInternalServerError || got.body["code"] != "internal" || got.body["requestId"] == "" ||
		got.header.Get("X-Request-Id") == "" {
		t.Errorf("answer: %+v", got)
	}
	const counter = `novelgate_http_requests_total{code="internal",method="POST",route="` + novelPath + `",status="500"} 1`
	if found := exposed(t, metrics...); !strings.Contains(found, counter) {
		t.Errorf("no %s: %s", counter, found)
	}
	labels := 0
	for i := range 3 {
		send(t, handler, http.MethodGet, fmt.Sprint("/path-", i), "")
		send(t, handler, fmt.Sprint("METHOD", i), novelPath, "")
		send(t, handler, http.MethodPost, fmt.Sprint(postPath, "?query=", i), postBody)
		found := exposed(t, metrics...)
		if n := strings.Count(found, "\n"); i == 0 {
			labels = n
		} else if n != labels {
			t.Errorf("%d series, then %d: %s", labels, n, found)
		}
	}
}

// TestTraceParent passes a valid trace context on and drops any other.
func TestTraceParent(t *testing.T) {
	t.Parallel()
	const valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for sent, want := range map[string]string{
		valid: valid, "": "", strings.ToUpper(valid): "", valid + "-more": "", "01" + valid[2:]: "", valid[:54]: "",
		"00-" + strings.Repeat("0", 32) + valid[35:]:         "", // no trace
		valid[:36] + strings.Repeat("0", 16) + "-01":         "", // no parent
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b71692-01": "",
	} {
		f := newFake()
		var told string
		f.execute = func(_ context.Context, cmd *committer.Command) (committer.Result, error) {
			told = cmd.Caller.TraceParent
			return committer.Result{}, nil
		}
		handler, _ := serve(t, f)
		send(t, handler, http.MethodPost, postPath, postBody, "Traceparent", sent)
		if told != want {
			t.Errorf("%q became %q", sent, told)
		}
	}
}

// TestRateLimitHeaders: every answer to an authenticated request has the state of the limit.
func TestRateLimitHeaders(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.status = ratelimit.Decision{Limit: 60, Remaining: 17, Reset: 1200 * time.Millisecond}
	handler, _ := serve(t, f)
	for name, tc := range map[string]struct {
		path, body      string
		header          []string
		policy, current string
		status          int
	}{
		"post":         {postPath, postBody, nil, `"posts";q=60;w=60`, `"posts";r=17;t=2`, 201},
		"novel":        {novelPath, novelBody, nil, `"novels";q=5;w=60`, `"novels";r=17;t=2`, 201},
		"invalid body": {postPath, `{}`, nil, `"posts";q=60;w=60`, `"posts";r=17;t=2`, 400},
		"no key":       {postPath, postBody, []string{"Idempotency-Key", ""}, `"posts";q=60;w=60`, `"posts";r=17;t=2`, 400},
		"media type": {
			postPath, postBody, []string{"Content-Type", "text/plain"}, `"posts";q=60;w=60`, `"posts";r=17;t=2`, 415,
		},
		"not authorised": {postPath, postBody, []string{"Authorization", ""}, "", "", 401},
	} {
		got := send(t, handler, http.MethodPost, tc.path, tc.body, tc.header...)
		if got.status != tc.status || got.header.Get("Ratelimit-Policy") != tc.policy ||
			got.header.Get("Ratelimit") != tc.current {
			t.Errorf("%s: %d %v", name, got.status, got.header)
		}
	}
}

// TestCaller: the committer gets the caller of a command.
func TestCaller(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.integration.Review, f.integration.CanCreateNovels = true, false
	var told committer.Caller
	f.execute = func(_ context.Context, cmd *committer.Command) (committer.Result, error) {
		told = cmd.Caller
		return committer.Result{}, nil
	}
	handler, _ := serve(t, f)
	send(t, handler, http.MethodPost, postPath, postBody, "X-Request-Id", "r")
	want := committer.Caller{
		IntegrationID: f.integration.IntegrationID, KeyID: f.integration.KeyID, Review: true, PostsPerMinute: 60,
		NovelsPerMinute: 5, AuthorKey: f.integration.AuthorKey, RequestID: "r",
	}
	if told != want {
		t.Errorf("caller %+v, want %+v", told, want)
	}
}

// exposed returns metrics in the text format.
func exposed(t testing.TB, metrics ...prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics...)
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	return w.Body.String()
}

// TestCommandsThatFailShow: failing commands make the service unready, even with working connections.
func TestCommandsThatFailShow(t *testing.T) {
	t.Parallel()
	f := newFake()
	var outcome error
	f.execute = func(context.Context, *committer.Command) (committer.Result, error) {
		return committer.Result{}, outcome
	}
	var clock atomic.Int64
	start := time.Now()
	api := newAPI(f, time.Minute, func() time.Time { return start.Add(time.Duration(clock.Load())) })
	handler := routes(api)
	for i, step := range []struct {
		after   time.Duration // since the step before
		outcome error
		failing bool
	}{
		{0, nil, false},
		{time.Second, committer.ErrUnavailable, false},
		{time.Second, committer.ErrOutcomeUnknown, false}, // for one second
		{time.Second, committer.ErrUnavailable, true},
		{time.Second, post.ErrNovelNotFound, true}, // a refusal does not count
		{time.Second, nil, false},
		{time.Second, committer.ErrUnavailable, false},
		{3 * time.Second, errors.New("a defect"), false}, // of one command
		{time.Second, committer.ErrUnavailable, true},
		{9 * time.Second, post.ErrNovelNotFound, true},
		{2 * time.Second, post.ErrNovelNotFound, false}, // 11 s after the latest failure
		{0, committer.ErrUnavailable, false},
		{2 * time.Second, committer.ErrUnavailable, true},
	} {
		clock.Add(int64(step.after))
		outcome = step.outcome
		send(t, handler, http.MethodPost, postPath, postBody)
		if got := api.Failing(); (got != nil) != step.failing || step.failing && !errors.Is(got, commands.ErrFailing) {
			t.Errorf("step %d, %v: %v", i, step.outcome, got)
		}
	}
}
