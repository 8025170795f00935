package commands_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
)

// TestTimeout lets each thing that a request waits for hang: the answer is a 503 and comes in time.
func TestTimeout(t *testing.T) {
	t.Parallel()
	hang := func(ctx context.Context) error { <-ctx.Done(); return fmt.Errorf("wait: %w", ctx.Err()) }
	for name, spoil := range map[string]func(*fake){
		"authentication": func(f *fake) { f.authenticate = hang },
		"limiter": func(f *fake) {
			f.take = func(ctx context.Context) (ratelimit.Decision, error) { return ratelimit.Decision{}, hang(ctx) }
		},
		"committer": func(f *fake) {
			f.post = func(ctx context.Context, _ *committer.ImportPost) (committer.PostResult, error) {
				<-ctx.Done()
				return committer.PostResult{}, committer.ErrOutcomeUnknown
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			spoil(f)
			handler, _ := serve(t, f)
			start := time.Now()
			got := send(t, handler, http.MethodPost, postPath, postBody)
			if took := time.Since(start); took > 300*timeout {
				t.Errorf("the answer took %s", took)
			}
			if got.status != http.StatusServiceUnavailable || got.body["code"] != "unavailable" ||
				got.body["retryable"] != true || got.header.Get("Retry-After") != "1" {
				t.Errorf("answer: %+v", got)
			}
		})
	}
}

// TestLimiterErrors tells a database that is away from a defect.
func TestLimiterErrors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err    error
		status int
	}{
		{ratelimit.ErrClosed, 503},
		{&pgconn.PgError{Code: "57P03"}, 503},
		{fmt.Errorf("take: %w", io.ErrUnexpectedEOF), 503},
		{errors.New("a secret of the inside"), 500},
		{&pgconn.PgError{Code: "42P01"}, 500},
	} {
		f := newFake()
		f.take = func(context.Context) (ratelimit.Decision, error) { return ratelimit.Decision{}, tc.err }
		handler, _ := serve(t, f)
		if got := send(t, handler, http.MethodPost, postPath, postBody); got.status != tc.status || f.calls.Load() != 0 {
			t.Errorf("%v: %+v", tc.err, got)
		}
	}
}

// TestErrors maps every error of the committer.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err        error
		status     int
		code       string
		retryAfter string
	}{
		{novel.ErrRejected, 409, "novel_rejected", ""},
		{fmt.Errorf("replay: %w", novel.ErrRejected), 409, "novel_rejected", ""},
		{post.ErrNovelNotFound, 404, "novel_not_found", ""},
		{committer.ErrKeyMisused, 400, "invalid_idempotency_key", ""},
		{&committer.RateLimitedError{Limit: 5, RetryAfter: 2500 * time.Millisecond}, 429, "rate_limited", "3"},
		{committer.ErrQueueFull, 503, "unavailable", "1"},
		{committer.ErrClosed, 503, "unavailable", "1"},
		{fmt.Errorf("%w: acquire", committer.ErrUnavailable), 503, "unavailable", "1"},
		{fmt.Errorf("%w: commit", committer.ErrOutcomeUnknown), 503, "unavailable", "1"},
		{context.Canceled, 503, "unavailable", "1"},
		{errors.New("a secret of the inside"), 500, "internal", ""},
	} {
		t.Run(tc.err.Error(), func(t *testing.T) {
			t.Parallel()
			f := newFake()
			f.upsert = func(context.Context, *committer.UpsertNovel) (committer.NovelResult, error) {
				return committer.NovelResult{}, tc.err
			}
			f.post = func(context.Context, *committer.ImportPost) (committer.PostResult, error) {
				return committer.PostResult{}, tc.err
			}
			handler, _ := serve(t, f)
			for path, body := range map[string]string{novelPath: novelBody, postPath: postBody} {
				got := send(t, handler, http.MethodPost, path, body)
				if got.status != tc.status || got.body["code"] != tc.code || got.header.Get("Retry-After") != tc.retryAfter {
					t.Errorf("%s: %+v", path, got)
				}
				if got.header.Get("Content-Type") != "application/problem+json" ||
					got.body["requestId"] != got.header.Get("X-Request-Id") {
					t.Errorf("%s: %+v", path, got)
				}
				if strings.Contains(fmt.Sprint(got.body), "secret") {
					t.Errorf("%s: the cause is shown: %v", path, got.body)
				}
			}
		})
	}
}

// TestAnswers renders what the committer returns.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const address = "https://host.example/books/novels/a-title"
	comment := address + "/discussion?post=" + postID.String() + "#post-" + postID.String()
	for name, tc := range map[string]struct {
		novel    committer.NovelResult
		post     committer.PostResult
		status   int
		location string
		replayed string
		mismatch string
		want     map[string]any
	}{
		"created": {
			novel: committer.NovelResult{Outcome: novel.Created}, status: 201, location: address,
			want: map[string]any{"created": true, "updated": false, "canonical": false},
		},
		"updated": {
			novel: committer.NovelResult{Outcome: novel.Updated}, status: 200,
			want: map[string]any{"created": false, "updated": true, "canonical": false},
		},
		"canonical": {
			novel: committer.NovelResult{Outcome: novel.Canonical}, status: 200,
			want: map[string]any{"created": false, "updated": false, "canonical": true},
		},
		"foreign": {
			novel: committer.NovelResult{Outcome: novel.Foreign}, status: 200,
			want: map[string]any{"created": false, "updated": false, "canonical": false},
		},
		"replayed novel": {
			novel: committer.NovelResult{Outcome: novel.Updated, Replayed: true, Mismatch: true}, status: 200, replayed: "true",
			mismatch: "true",
			want:     map[string]any{"created": false, "updated": true, "canonical": false},
		},
		"post": {
			post: committer.PostResult{PostID: postID}, status: 201, location: comment,
			want: map[string]any{"created": true, "parentPostId": nil},
		},
		"threaded post": {
			post: committer.PostResult{PostID: postID, ParentPostID: &novelID}, status: 201, location: comment,
			want: map[string]any{"created": true, "parentPostId": novelID.String()},
		},
		"replayed post": {
			post: committer.PostResult{PostID: postID, Replayed: true}, status: 200, replayed: "true",
			want: map[string]any{"created": false, "parentPostId": nil},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			path, body := novelPath, novelBody
			if tc.post.PostID == postID {
				path, body = postPath, postBody
				tc.post.ThreadID, tc.post.NovelSlug = threadID, "a-title"
				tc.want["postId"], tc.want["threadId"], tc.want["url"] = postID.String(), threadID.String(), comment
			} else {
				tc.novel.NovelID, tc.novel.Slug = novelID, "a-title"
				tc.want["novelId"], tc.want["slug"], tc.want["url"] = novelID.String(), "a-title", address
			}
			f.upsert = func(context.Context, *committer.UpsertNovel) (committer.NovelResult, error) { return tc.novel, nil }
			f.post = func(context.Context, *committer.ImportPost) (committer.PostResult, error) { return tc.post, nil }
			handler, _ := serve(t, f)
			got := send(t, handler, http.MethodPost, path, body)
			if diff := cmp.Diff(tc.want, got.body); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if got.status != tc.status || got.header.Get("Content-Type") != "application/json" ||
				got.header.Get("Location") != tc.location ||
				got.header.Get("Idempotent-Replayed") != tc.replayed || got.header.Get("Idempotency-Mismatch") != tc.mismatch {
				t.Errorf("answer: %+v", got)
			}
		})
	}
}

// TestPanic lets a handler panic: the answer is a problem, and the request is counted.
func TestPanic(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.upsert = func(context.Context, *committer.UpsertNovel) (committer.NovelResult, error) { panic("a mistake") }
	handler, metrics := serve(t, f)
	got := send(t, handler, http.MethodPost, novelPath, novelBody)
	if got.status != http.StatusInternalServerError || got.body["code"] != "internal" || got.body["requestId"] == "" ||
		got.header.Get("X-Request-Id") == "" {
		t.Errorf("answer: %+v", got)
	}
	const counter = "novelgate_http_requests_total code=internal method=POST route=" + novelPath + " status=500"
	if n := series(t, metrics...)[counter]; n != 1 {
		t.Errorf("counted %v times: %v", n, series(t, metrics...))
	}
}
