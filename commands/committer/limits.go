package committer

import (
	"fmt"
	"time"

	"novelgate/commands/ratelimit"
)

// RateLimitedError refuses a command beyond a limit of its integration.
type RateLimitedError struct {
	Operation  ratelimit.Operation
	Limit      int           // per minute
	RetryAfter time.Duration // time until the next one can succeed
}

func (e *RateLimitedError) Error() string {
	what := map[ratelimit.Operation]string{
		ratelimit.Posts: "comments", ratelimit.Novels: "novel creations", ratelimit.Lines: "lines",
	}[e.Operation]
	return fmt.Sprintf("the limit of %d %s per minute is reached", e.Limit, what)
}

// request returns the operation of which the command needs a permit, whatever is decided; "" for none.
func (c *Command) request() ratelimit.Operation {
	switch {
	case c.Bulk:
		return ratelimit.Lines
	case c.Fields == nil:
		return ratelimit.Posts
	default:
		return ""
	}
}

// limited returns the window and the limit of an operation; false when it has none. Lines of bulk requests have no
// other limit.
func (c *Command) limited(operation ratelimit.Operation) (k ratelimit.Key, limit int, ok bool) {
	k = ratelimit.Key{Integration: c.Caller.IntegrationID, Operation: operation}
	switch {
	case c.Bulk != (operation == ratelimit.Lines):
		return k, 0, false
	case operation == ratelimit.Posts:
		return k, c.Caller.PostsPerMinute, true
	case operation == ratelimit.Novels:
		return k, c.Caller.NovelsPerMinute, true
	case operation == ratelimit.Lines:
		return k, c.Caller.LinesPerMinute, true
	default:
		return k, 0, false
	}
}

// wantPermits adds the windows of which the jobs may need permits. The fast path creates no novels.
func (b *batch) wantPermits(st *state, jobs []*job) {
	st.grants = b.config.Limiter.NewGrants()
	for _, j := range jobs {
		operations := []ratelimit.Operation{j.request()}
		if !st.isFast && j.mayCreate() {
			operations = append(operations, ratelimit.Novels)
		}
		for _, operation := range operations {
			if k, limit, ok := j.limited(operation); ok {
				st.grants.Want(k, limit)
			}
		}
	}
}

// spend uses one permit, if the operation has a limit.
func (st *state) spend(j *job, operation ratelimit.Operation) error {
	k, limit, ok := j.limited(operation)
	if !ok {
		return nil
	}
	if d := st.grants.Take(k, 1); d.Granted == 0 {
		return &RateLimitedError{Operation: operation, Limit: limit, RetryAfter: d.RetryAfter}
	}
	return nil
}
