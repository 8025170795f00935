package staff

import (
	"errors"
	"time"

	"novelgate/aggregates/author"
	"novelgate/aggregates/novel"
	"novelgate/aggregates/post"
	"novelgate/aggregates/principal"
	"novelgate/commands/webhooks"
	"novelgate/internal/problem"
)

// Problem maps the errors of staff commands to problems. It returns nil for any other error.
func Problem(err error) *problem.Error {
	var ofNovel *novel.TransitionError
	var ofAuthor *author.TransitionError
	var ofPost *post.TransitionError
	var edit *novel.EditError
	var limit *principal.LimitError
	switch {
	case errors.As(err, &ofNovel), errors.As(err, &ofAuthor), errors.As(err, &ofPost),
		errors.Is(err, post.ErrNotReported):
		return problem.New(problem.CodeInvalidTransition, problem.Sentence(err))
	case errors.As(err, &edit):
		return problem.New(problem.CodeConflict, problem.Sentence(err))
	case errors.Is(err, ErrNameTaken):
		return problem.New(problem.CodeConflict, "An integration of this name exists already.")
	case errors.Is(err, principal.ErrKeyRevoked):
		return problem.New(problem.CodeConflict, "The key is revoked already.")
	case errors.Is(err, principal.ErrNotFound), errors.Is(err, principal.ErrKeyNotFound),
		errors.Is(err, ErrNoSuchNovel):
		return problem.ErrNotFound.WithDetail("There is no such integration, key or novel.")
	case errors.Is(err, ErrNoSuchAuthor):
		return problem.ErrNotFound.WithDetail("This author has not commented, and nothing was decided about them.")
	case errors.Is(err, post.ErrNotFound):
		return problem.ErrNotFound.WithDetail("There is no such post.")
	case errors.Is(err, ErrPostCursor):
		return invalid("cursor", err)
	case errors.Is(err, ErrNoWord), errors.Is(err, ErrNoWords), errors.Is(err, ErrWordsLate):
		return invalid("text", err)
	case errors.Is(err, author.ErrUUIDInvalid):
		return invalid("uuid", err)
	case errors.Is(err, author.ErrMemberInvalid):
		return invalid("memberId", err)
	case errors.Is(err, principal.ErrNameInvalid), errors.Is(err, principal.ErrNameReserved):
		return invalid("name", err)
	case errors.Is(err, principal.ErrCapability):
		return invalid("capabilities", err)
	case errors.As(err, &limit):
		return invalidLimits(limit.Operations)
	case errors.Is(err, principal.ErrExpiryPassed):
		return invalid("expiresInSeconds", err)
	case errors.Is(err, ErrReasonRequired), errors.Is(err, webhooks.ErrReasonRequired),
		errors.Is(err, ErrReasonInvalid):
		return invalid("reason", err)
	case errors.Is(err, ErrTitleInvalid):
		return invalid("novel", err) // the member with the title
	case errors.Is(err, ErrHasKey):
		return problem.New(problem.CodeInvalidRequest, problem.Sentence(err))
	case errors.Is(err, ErrBusy): // an erasure that continues when it is repeated
		return problem.Unavailable(time.Second).WithCause(err)
	default:
		return nil
	}
}

func invalid(field string, err error) *problem.Error { return problem.InvalidField(field, err.Error()) }

func invalidLimits(operations []string) *problem.Error {
	fields := make([]problem.FieldError, len(operations))
	for i, operation := range operations {
		fields[i] = problem.FieldError{Field: operation + "PerMinute", Message: principal.ErrLimit.Error()}
	}
	return problem.InvalidRequest(fields...)
}
