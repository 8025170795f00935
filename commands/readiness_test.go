package commands_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"novelgate/aggregates/post"
	"novelgate/commands"
	"novelgate/commands/committer"
	"novelgate/internal/httpkit"
)

// TestCommandsThatFailShow walks through an outage that no connection shows.
func TestCommandsThatFailShow(t *testing.T) {
	t.Parallel()
	f := newFake()
	var outcome error
	f.post = func(context.Context, *committer.ImportPost) (committer.PostResult, error) {
		return committer.PostResult{}, outcome
	}
	var clock atomic.Int64
	start := time.Now()
	api := newAPI(f, time.Minute, func() time.Time { return start.Add(time.Duration(clock.Load())) })
	router := mux.NewRouter()
	api.Register(router)
	handler := httpkit.WithRequestID(router)
	for i, step := range []struct {
		after   time.Duration // the step before
		outcome error
		failing bool
	}{
		{0, nil, false},
		{time.Second, committer.ErrUnavailable, false},
		{time.Second, committer.ErrOutcomeUnknown, false}, // for one second
		{time.Second, committer.ErrUnavailable, true},
		{time.Second, post.ErrNovelNotFound, true}, // a refusal shows nothing
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
