package committer

import (
	"fmt"
	"time"

	"novelgate/commands/ratelimit"
)

// RateLimitedError refuses a command beyond a limit of its integration.
type RateLimitedError struct {
	Operation  ratelimit.Operation // Posts, Novels or NovelUpdates
	Limit      int                 // per minute
	RetryAfter time.Duration       // time until the next one can succeed
}

func (e *RateLimitedError) Error() string {
	what := map[ratelimit.Operation]string{
		ratelimit.Posts: "comments", ratelimit.Novels: "novel creations", ratelimit.NovelUpdates: "novel updates",
	}[e.Operation]
	return fmt.Sprintf("the limit of %d %s per minute is reached", e.Limit, what)
}

// limited returns the window and the limit of an operation of the caller; false when it has none.
func (c *Caller) limited(operation ratelimit.Operation) (k ratelimit.Key, limit int, ok bool) {
	k = ratelimit.Key{Integration: c.IntegrationID, Operation: operation}
	switch {
	case c.Unlimited:
		return k, 0, false
	case operation == ratelimit.Posts:
		return k, c.PostsPerMinute, true
	case operation == ratelimit.Novels:
		return k, c.NovelsPerMinute, true
	case c.NovelUpdatesPerMinute != nil:
		return k, *c.NovelUpdatesPerMinute, true
	default:
		return k, 0, false
	}
}

// wantPermits adds the windows of which the jobs may need permits. The fast path creates no novels.
func (b *batch) wantPermits(st *state, jobs []*job) {
	st.grants = b.config.Limiter.NewGrants()
	want := func(j *job, operation ratelimit.Operation) {
		if k, limit, ok := j.Caller.limited(operation); ok {
			st.grants.Want(k, limit)
		}
	}
	for _, j := range jobs {
		if j.isComment() {
			want(j, ratelimit.Posts)
		} else {
			want(j, ratelimit.NovelUpdates)
		}
		if st.assumed == nil && j.mayCreate() {
			want(j, ratelimit.Novels)
		}
	}
}

// spend uses one permit of the caller, if the operation has a limit.
func (st *state) spend(caller *Caller, operation ratelimit.Operation) error {
	k, limit, ok := caller.limited(operation)
	if !ok {
		return nil
	}
	if st.assumed != nil {
		st.assumed[k]++
		return nil
	}
	if d := st.grants.Take(k, 1); d.Granted == 0 {
		return &RateLimitedError{Operation: operation, Limit: limit, RetryAfter: d.RetryAfter}
	}
	return nil
}
