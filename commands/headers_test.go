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

	"novelgate/commands/access"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
)

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
		f.post = func(_ context.Context, cmd *committer.ImportPost) (committer.PostResult, error) {
			told = cmd.Caller.TraceParent
			return committer.PostResult{}, nil
		}
		handler, _ := serve(t, f)
		send(t, handler, http.MethodPost, postPath, postBody, "Traceparent", sent)
		if told != want {
			t.Errorf("%q became %q", sent, told)
		}
	}
}

// TestRateLimitHeaders looks for the limit's state on every answer to an authenticated request.
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

// TestCaller passes on who sends a command.
func TestCaller(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.integration.Review, f.integration.CanCreateNovels = true, false
	var told committer.Caller
	f.post = func(_ context.Context, cmd *committer.ImportPost) (committer.PostResult, error) {
		told = cmd.Caller
		return committer.PostResult{}, nil
	}
	handler, _ := serve(t, f)
	send(t, handler, http.MethodPost, postPath, postBody, "X-Request-Id", "r")
	want := committer.Caller{
		IntegrationID: f.integration.IntegrationID, KeyID: f.integration.KeyID, UnderReview: true, NovelsPerMinute: 5,
		RequestID: "r",
	}
	if told != want {
		t.Errorf("caller %+v, want %+v", told, want)
	}
}

// TestRefusedKeys tells a key that opens nothing from a database that is away, and that from a defect.
func TestRefusedKeys(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err    error
		status int
	}{
		{access.ErrMalformed, 401},
		{access.ErrUnknown, 401},
		{access.ErrExpired, 401},
		{context.DeadlineExceeded, 503},
		{fmt.Errorf("look up key: %w", io.ErrUnexpectedEOF), 503},
		{errors.New("a column is missing"), 500},
	} {
		f := newFake()
		f.authenticate = func(context.Context) error { return tc.err }
		handler, _ := serve(t, f)
		got := send(t, handler, http.MethodPost, postPath, postBody)
		if got.status != tc.status || (tc.status == 401) != (got.header.Get("WWW-Authenticate") == "Bearer") ||
			f.calls.Load() != 0 {
			t.Errorf("%v: %+v", tc.err, got)
		}
	}
}
