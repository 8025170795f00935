package commands

import (
	"errors"

	"novelgate/aggregates/author"
	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/commands/committer"
	"novelgate/commands/ratelimit"
	"novelgate/internal/problem"
	"novelgate/internal/web"
)

// Problem maps the errors of commands to problems. It returns nil for any other error.
func Problem(err error) *problem.Error {
	var limited *committer.RateLimitedError
	switch {
	case errors.As(err, &limited):
		return problem.RateLimited(limited.RetryAfter).WithDetail(
			problem.Sentence(limited) + " Repeat the request with the same Idempotency-Key after the time in Retry-After.")
	case errors.Is(err, ratelimit.ErrShareExceeded):
		return problem.TooManyRequests(web.RetryAfter).WithCause(err)
	case errors.Is(err, novel.ErrRejected):
		return problem.ErrNovelRejected
	case errors.Is(err, post.ErrNovelPending):
		return problem.ErrNovelNotFound.WithDetail("The novel with this title waits for approval by the staff of the host " +
			"platform. Send the comment again when it is approved.")
	case errors.Is(err, post.ErrNovelRejected):
		return problem.ErrNovelNotFound.WithDetail("The staff of the host platform declined this title. Comments on it are " +
			"not accepted, and an upsert would be refused, too.")
	case errors.Is(err, committer.ErrUnderReview):
		return problem.ErrNovelNotFound.WithDetail("No published or approved novel has this title, and a comment of an " +
			"integration under review creates none. Upsert the novel, and send the comment again when staff have approved it.")
	case errors.Is(err, post.ErrNovelNotFound):
		return problem.ErrNovelNotFound
	case errors.Is(err, author.ErrBlocked):
		return problem.ErrAuthorBlocked
	case errors.Is(err, post.ErrNotFound):
		return problem.ErrNotFound.WithDetail("No comment of yours has the key in the path, and readers see none with this " +
			"postId. Ask /api/integrations/deliveries/reconcile which of your comments are missing, and send them first.")
	case errors.Is(err, post.ErrWithdrawn):
		return problem.ErrGone.WithDetail("The comment was withdrawn. Nothing was changed.")
	case errors.Is(err, post.ErrErased):
		return problem.ErrGone.WithDetail("The comment was erased with all of its author. Nothing was changed.")
	case errors.Is(err, committer.ErrKeyMisused):
		return problem.New(problem.CodeInvalidIdempotencyKey,
			"This Idempotency-Key was used for a novel with another title, or for another comment.")
	case errors.Is(err, committer.ErrOutcomeUnknown):
		return problem.Unavailable(web.RetryAfter).WithDetail(
			"It is not known whether the command was carried out. Repeat the request with the same Idempotency-Key: it is " +
				"carried out once.").WithCause(err)
	case errors.Is(err, committer.ErrUnavailable), errors.Is(err, committer.ErrQueueFull),
		errors.Is(err, committer.ErrClosed):
		return problem.Unavailable(web.RetryAfter).WithCause(err)
	default:
		return nil
	}
}
