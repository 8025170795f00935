package commands

import (
	"errors"
	"sync"
	"time"

	"novelgate/aggregates/author"
	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// shareRetryAfter is the Retry-After when an integration has reached its fair share.
const shareRetryAfter = time.Second

// Problem maps the errors of commands to problems. It returns nil for any other error.
func Problem(err error) *problem.Error {
	var limited *committer.RateLimitedError
	switch {
	case errors.As(err, &limited):
		return problem.RateLimited(limited.RetryAfter).WithDetail(
			problem.Sentence(limited) + " Repeat the request with the same Idempotency-Key after the time in Retry-After.")
	case errors.Is(err, ratelimit.ErrShareExceeded):
		return problem.RateLimited(shareRetryAfter).WithDetail(
			"Too many commands of this integration are under way. Repeat the request with the same Idempotency-Key after the " +
				"time in Retry-After.").WithCause(err)
	case errors.Is(err, novel.ErrRejected):
		return problem.NovelRejected()
	case errors.Is(err, post.ErrNovelPending):
		return problem.NovelNotFound().WithDetail("The novel with this title waits for approval by the staff of the host " +
			"platform. Send the comment again when it is approved.")
	case errors.Is(err, committer.ErrUnderReview):
		return problem.NovelNotFound().WithDetail("No published or approved novel has this title, and a comment of an " +
			"integration under review creates none. Upsert the novel, and send the comment again when staff have approved it.")
	case errors.Is(err, post.ErrNovelNotFound):
		return problem.NovelNotFound()
	case errors.Is(err, author.ErrBlocked):
		return problem.AuthorBlocked()
	case errors.Is(err, committer.ErrKeyMisused):
		return problem.InvalidIdempotencyKey("This Idempotency-Key was used for a novel with another title.")
	case errors.Is(err, committer.ErrOutcomeUnknown):
		return problem.Unavailable(httpkit.RetryAfter).WithDetail(
			"It is not known whether the command was carried out. Repeat the request with the same Idempotency-Key: it is " +
				"carried out once.").WithCause(err)
	case errors.Is(err, committer.ErrUnavailable), errors.Is(err, committer.ErrQueueFull),
		errors.Is(err, committer.ErrClosed), errors.Is(err, ratelimit.ErrClosed):
		return problem.Unavailable(httpkit.RetryAfter).WithCause(err)
	default:
		return nil
	}
}

// The service is not ready after notReadyAfter with failed commands (503) and no success. After readyAgainAfter without
// a failed command it is ready again, so that new commands can show whether it works.
const (
	notReadyAfter   = 2 * time.Second
	readyAgainAfter = 10 * time.Second
)

// readiness derives from the outcomes of commands whether the service works. A writable connection is not enough:
// commits may hang, a table may be locked, or the disk may be full. The zero value is ready.
type readiness struct {
	mu          sync.Mutex
	first, last time.Time // failures since the latest success; first is zero without any
}

// record records the outcome of a command. It ignores refusals.
func (r *readiness) record(now time.Time, err error, code problem.Code) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.first = time.Time{}
	case code == problem.CodeUnavailable:
		if r.first.IsZero() || now.Sub(r.last) > readyAgainAfter {
			r.first = now
		}
		r.last = now
	}
}

// ErrFailing means that commands fail at present. The server log has the causes.
var ErrFailing = errors.New("commands fail, and none has succeeded since the first failure")

// Failing returns ErrFailing, or nil.
func (a *API) Failing() error {
	r := &a.readiness
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first.IsZero() || r.last.Sub(r.first) < notReadyAfter || a.Now().Sub(r.last) > readyAgainAfter {
		return nil
	}
	return ErrFailing
}
