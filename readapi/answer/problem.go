package answer

import (
	"errors"
	"time"

	"novelgate/commands/problem"
	"novelgate/events/eventlog"
	"novelgate/readapi/reading"
)

// Problem is the one place where errors of readers become what a client sees.
func Problem(err error) *problem.Error {
	var refused *problem.Error
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.Is(err, reading.ErrNotFound):
		return problem.NotFound()
	case errors.Is(err, reading.ErrGone):
		return problem.Gone()
	case errors.Is(err, reading.ErrCursor):
		return problem.InvalidRequest(problem.FieldError{Field: "cursor", Message: reading.ErrCursor.Error()})
	case eventlog.IsAway(err):
		return problem.Unavailable(time.Second).WithDetail(
			"The service cannot answer now. Repeat the request after the time in Retry-After.").WithCause(err)
	default:
		return problem.Internal(err)
	}
}
