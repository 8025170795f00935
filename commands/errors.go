package commands

import (
	"errors"
	"fmt"
	"time"

	"novelgate/aggregates/author"
	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/commands/share"
	"novelgate/internal/httpkit"
	"novelgate/internal/problem"
)

// retryShare is the Retry-After when an integration has reached its fair share.
const retryShare = time.Second

// Problem maps the errors of commands to problems. It returns nil for any other error.
func Problem(err error) *problem.Error {
	var limited *committer.RateLimitedError
	switch {
	case errors.As(err, &limited):
		what := "creations"
		if limited.Operation == ratelimit.NovelUpdates {
			what = "updates"
		}
		return problem.RateLimited(limited.RetryAfter).WithDetail(
			fmt.Sprintf("The limit of %d novel %s per minute is reached. Repeat the request with the same Idempotency-Key "+
				"after the time in Retry-After.", limited.Limit, what))
	case errors.Is(err, share.ErrExceeded):
		return problem.RateLimited(retryShare).WithDetail(
			"Too many commands of this integration are under way. Repeat the request with the same Idempotency-Key after the " +
				"time in Retry-After.").WithCause(err)
	case errors.Is(err, novel.ErrRejected):
		return problem.NovelRejected()
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
