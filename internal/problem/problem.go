// Package problem is the one typed error that HTTP clients see, and its rendering
// as application/problem+json (RFC 9457).
//
// Handlers return errors; Write renders them. What is not an *Error is an internal
// error, and its text stays inside.
package problem

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// FieldError says what is wrong with one member of the request body. Field is the
// JSON name of the member; an entry of a list is "genres[3]".
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Error is a refusal or a failure that is shown to the client. Make one with the
// constructor of its code. The values are not changed after construction: the With
// methods return copies.
type Error struct {
	Code       Code
	Detail     string        // a sentence for people
	Fields     []FieldError  // every failing field, in the order of the documentation
	RetryAfter time.Duration // when above zero, or the code is retryable
	Allow      []string      // the methods that a path has, for method_not_allowed

	cause error // for logs and errors.Is; never rendered
}

// Unauthorized says that there is no valid key.
func Unauthorized(detail string) *Error {
	return &Error{Code: CodeUnauthorized, Detail: detail}
}

// CapabilityDisabled says that the key is valid but may not do this.
func CapabilityDisabled(detail string) *Error {
	return &Error{Code: CodeCapabilityDisabled, Detail: detail}
}

// InvalidRequest says which fields of the body, or which parameters, failed. The detail names the first.
func InvalidRequest(fields ...FieldError) *Error {
	e := &Error{Code: CodeInvalidRequest, Detail: "The request is not valid.", Fields: fields}
	if len(fields) > 0 {
		e.Detail = fmt.Sprintf("%s: %s.", fields[0].Field, fields[0].Message)
	}
	if more := len(fields) - 1; more > 0 {
		e.Detail += fmt.Sprintf(" %d more under errors.", more)
	}
	return e
}

// MalformedBody is an invalid_request about the body as a whole, without a field.
func MalformedBody(detail string) *Error {
	return &Error{Code: CodeInvalidRequest, Detail: detail}
}

// InvalidField is an InvalidRequest about one field or parameter.
func InvalidField(field, message string) *Error {
	return InvalidRequest(FieldError{Field: field, Message: message})
}

// MalformedQuery is an invalid_request about the query of an address as a whole: what cannot be read must not be passed
// over.
func MalformedQuery() *Error {
	return InvalidRequest(FieldError{
		Field: "query", Message: "is not well formed; in a value, % is written %25, & is %26 and ; is %3B",
	})
}

// InvalidIdempotencyKey says what is wrong with the Idempotency-Key header.
func InvalidIdempotencyKey(detail string) *Error {
	return &Error{Code: CodeInvalidIdempotencyKey, Detail: detail}
}

// NovelNotFound says that no published or approved novel has the title.
func NovelNotFound() *Error {
	return &Error{
		Code:   CodeNovelNotFound,
		Detail: "No published or approved novel has this title, and this integration cannot create it.",
	}
}

// NovelRejected says that staff declined the title.
func NovelRejected() *Error {
	return &Error{
		Code: CodeNovelRejected, Detail: "The staff of the host platform declined this title. It cannot be imported again.",
	}
}

// AuthorBlocked says that staff blocked the author of a comment.
func AuthorBlocked() *Error {
	return &Error{
		Code:   CodeAuthorBlocked,
		Detail: "The staff of the host platform blocked this author. Comments of theirs are not accepted.",
	}
}

// RequestTimeout says that the body did not arrive in time.
func RequestTimeout() *Error {
	return &Error{Code: CodeRequestTimeout, Detail: "The request body did not arrive in time. Repeat the request."}
}

// PayloadTooLarge says that the body has more than limit bytes.
func PayloadTooLarge(limit int64) *Error {
	return &Error{Code: CodePayloadTooLarge, Detail: fmt.Sprintf("The request body is larger than %d bytes.", limit)}
}

// UnsupportedMediaType says that the body is not application/json but got, which
// may be empty.
func UnsupportedMediaType(got string) *Error {
	const want = "The Content-Type must be application/json"
	if got == "" {
		return &Error{Code: CodeUnsupportedMediaType, Detail: want + "; the request has none."}
	}
	return &Error{Code: CodeUnsupportedMediaType, Detail: fmt.Sprintf("%s, got %q.", want, clip(got, 100))}
}

// RateLimited says that the limit of the integration is used up, and when it is
// worth a try again.
func RateLimited(retryAfter time.Duration) *Error {
	return &Error{
		Code: CodeRateLimited,
		Detail: "The limit of requests per minute is reached. Repeat the request with the same Idempotency-Key after " +
			"the time in Retry-After.",
		RetryAfter: retryAfter,
	}
}

// QueriesLimited says that the integration asks more than its share.
func QueriesLimited(retryAfter time.Duration) *Error {
	return &Error{
		Code:       CodeRateLimited,
		Detail:     "This integration asks more than its share. Repeat the request after the time in Retry-After.",
		RetryAfter: retryAfter,
	}
}

// Unavailable says that the service can't answer now, or does not know whether the
// command went through.
func Unavailable(retryAfter time.Duration) *Error {
	return &Error{
		Code: CodeUnavailable,
		Detail: "The service cannot answer now. Repeat the request after the time in Retry-After, with the same " +
			"Idempotency-Key if it has one.",
		RetryAfter: retryAfter,
	}
}

// NotFound says that the path does not exist.
func NotFound() *Error {
	return &Error{Code: CodeNotFound, Detail: "There is nothing at this address."}
}

// Gone says that the address was that of something which staff removed.
func Gone() *Error {
	return &Error{Code: CodeGone, Detail: "The staff of the host platform removed what was at this address."}
}

// MethodNotAllowed says which methods the path has.
func MethodNotAllowed(allow ...string) *Error {
	return &Error{
		Code:   CodeMethodNotAllowed,
		Detail: "The address exists, but not for this method. Allowed: " + strings.Join(allow, ", ") + ".",
		Allow:  allow,
	}
}

// Forbidden says that the key is valid but not for this operation.
func Forbidden(detail string) *Error {
	return &Error{Code: CodeForbidden, Detail: detail}
}

// InvalidTransition says that a novel cannot move from one state to another.
func InvalidTransition(from, to string) *Error {
	return &Error{Code: CodeInvalidTransition, Detail: fmt.Sprintf("A novel that is %s cannot become %s.", from, to)}
}

// Conflict says that what there is stands against the request.
func Conflict(detail string) *Error {
	return &Error{Code: CodeConflict, Detail: detail}
}

// Internal hides cause behind a 500.
func Internal(cause error) *Error {
	return &Error{
		Code:   CodeInternal,
		Detail: "The service failed in a way it should not. The request ID helps its operators to find out why.",
		cause:  cause,
	}
}

// From returns the *Error in err's chain, or Internal(err); nil for nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok && e != nil {
		return e
	}
	return Internal(err)
}

// WithDetail returns a copy with another sentence for people.
func (e *Error) WithDetail(detail string) *Error {
	c := *e
	c.Detail = detail
	return &c
}

// WithCause returns a copy that wraps cause, for logs and errors.Is.
func (e *Error) WithCause(cause error) *Error {
	c := *e
	c.cause = cause
	return &c
}

// Error returns code and detail, and the cause: it is for logs, not for clients.
func (e *Error) Error() string {
	s := string(e.Code) + ": " + e.Detail
	if e.cause != nil {
		s += ": " + e.cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is an *Error of the same code, so that
// errors.Is(err, problem.NovelNotFound()) asks for the code alone.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t != nil && t.Code == e.Code
}

// clip cuts s to about limit bytes.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
