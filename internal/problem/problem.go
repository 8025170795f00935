// Package problem defines the error type of HTTP responses, and renders it as application/problem+json (RFC 9457).
//
// Handlers return errors; Write renders them. Any error that is not an *Error is rendered as an internal error without
// its text.
package problem

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// FieldError is the error of a member of the request body or of a parameter. Field is its name; an entry of a list is
// "genres[3]".
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Error is a refusal or a failure for the client. Create it with the constructor of its code. It is immutable: the With
// methods return copies.
type Error struct {
	Code       Code
	Detail     string        // a sentence for human readers
	Fields     []FieldError  // the invalid fields
	RetryAfter time.Duration // sent when above zero or when the code is retryable
	Allow      []string      // allowed methods, for method_not_allowed

	cause error // for logs and errors.Is; never rendered
}

// Sentence returns the text of an error as a Detail.
func Sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// Unauthorized means that the request has no valid key.
func Unauthorized(detail string) *Error { return &Error{Code: CodeUnauthorized, Detail: detail} }

// CapabilityDisabled means that the integration of the key may not do this.
func CapabilityDisabled(detail string) *Error {
	return &Error{Code: CodeCapabilityDisabled, Detail: detail}
}

// InvalidRequest lists the invalid fields of the body or the invalid parameters. The detail names the first one.
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
func MalformedBody(detail string) *Error { return &Error{Code: CodeInvalidRequest, Detail: detail} }

// InvalidField is an InvalidRequest about one field or parameter.
func InvalidField(field, message string) *Error {
	return InvalidRequest(FieldError{Field: field, Message: message})
}

// MalformedQuery is an invalid_request about a query string that cannot be parsed. Such a query string must not be
// ignored.
func MalformedQuery() *Error {
	return InvalidRequest(FieldError{
		Field: "query", Message: "is not well formed; in a value, % is written %25, & is %26 and ; is %3B",
	})
}

// InvalidIdempotencyKey refuses the Idempotency-Key header.
func InvalidIdempotencyKey(detail string) *Error {
	return &Error{Code: CodeInvalidIdempotencyKey, Detail: detail}
}

// NovelNotFound means that no published or approved novel has the title.
func NovelNotFound() *Error {
	const detail = "No published or approved novel has this title, and this integration cannot create it."
	return &Error{Code: CodeNovelNotFound, Detail: detail}
}

// NovelRejected means that staff rejected the title.
func NovelRejected() *Error {
	const detail = "The staff of the host platform declined this title. It cannot be imported again."
	return &Error{Code: CodeNovelRejected, Detail: detail}
}

// AuthorBlocked means that staff blocked the author of a comment.
func AuthorBlocked() *Error {
	const detail = "The staff of the host platform blocked this author. Their comments are not accepted."
	return &Error{Code: CodeAuthorBlocked, Detail: detail}
}

// RequestTimeout means that the body did not arrive in time.
func RequestTimeout() *Error {
	return &Error{Code: CodeRequestTimeout, Detail: "The request body did not arrive in time. Repeat the request."}
}

// PayloadTooLarge means that the body has more than limit bytes.
func PayloadTooLarge(limit int64) *Error {
	return &Error{Code: CodePayloadTooLarge, Detail: fmt.Sprintf("The request body is larger than %d bytes.", limit)}
}

// UnsupportedMediaType means that the Content-Type got is not want; "" means that there is none.
func UnsupportedMediaType(want, got string) *Error {
	if got == "" {
		return &Error{Code: CodeUnsupportedMediaType, Detail: "The Content-Type must be " + want + "; the request has none."}
	}
	return &Error{
		Code: CodeUnsupportedMediaType, Detail: fmt.Sprintf("The Content-Type must be %s, got %q.", want, Clip(got, 100)),
	}
}

// RateLimited means that the integration has reached a limit of commands. The detail is about the limit per minute.
func RateLimited(retryAfter time.Duration) *Error {
	const detail = "The limit of requests per minute is reached. Repeat the request with the same Idempotency-Key after " +
		"the time in Retry-After."
	return &Error{Code: CodeRateLimited, Detail: detail, RetryAfter: retryAfter}
}

// TooManyRequests means that too many requests of one caller are under way.
func TooManyRequests(retryAfter time.Duration) *Error {
	return RateLimited(retryAfter).WithDetail("Too many requests of this caller are under way. Repeat the request after " +
		"the time in Retry-After, with the same Idempotency-Key if it has one.")
}

// Unavailable means that the service cannot respond now, or does not know the outcome of the command.
func Unavailable(retryAfter time.Duration) *Error {
	const detail = "The service cannot answer now. Repeat the request after the time in Retry-After, with the same " +
		"Idempotency-Key if it has one."
	return &Error{Code: CodeUnavailable, Detail: detail, RetryAfter: retryAfter}
}

// ReadersOnly is the Unavailable of a service that only serves readers, until its database server is promoted.
func ReadersOnly(retryAfter time.Duration) *Error {
	return Unavailable(retryAfter).WithDetail("The database of this service is a standby, so it only serves readers. " +
		"Send the request to another replica, or repeat it after the time in Retry-After, with the same Idempotency-Key " +
		"if it has one.")
}

// NotFound means that the path, or the object at it, does not exist.
func NotFound() *Error {
	return &Error{Code: CodeNotFound, Detail: "There is nothing at this address."}
}

// Gone means that the object at this address was removed.
func Gone() *Error {
	return &Error{Code: CodeGone, Detail: "The staff of the host platform removed what was at this address."}
}

// MethodNotAllowed lists the methods of the path.
func MethodNotAllowed(allow ...string) *Error {
	detail := "The address exists, but not for this method. Allowed: " + strings.Join(allow, ", ") + "."
	return &Error{Code: CodeMethodNotAllowed, Detail: detail, Allow: allow}
}

// Forbidden means that the key is valid but not for this operation.
func Forbidden(detail string) *Error { return &Error{Code: CodeForbidden, Detail: detail} }

// InvalidTransition means that a novel, a post or an author cannot move to this state.
func InvalidTransition(detail string) *Error {
	return &Error{Code: CodeInvalidTransition, Detail: detail}
}

// Conflict means that the request conflicts with the current state.
func Conflict(detail string) *Error { return &Error{Code: CodeConflict, Detail: detail} }

// Internal is a 500. The client does not see the cause.
func Internal(cause error) *Error {
	const detail = "The service failed because of a defect. Report the request ID to its operators."
	return &Error{Code: CodeInternal, Detail: detail, cause: cause}
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

// WithDetail returns a copy with another detail.
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

// Error returns code, detail and cause. It is for logs, not for clients.
func (e *Error) Error() string {
	s := string(e.Code) + ": " + e.Detail
	if e.cause != nil {
		s += ": " + e.cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is an *Error of the same code, so that errors.Is(err, problem.NovelNotFound()) compares
// only the code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t != nil && t.Code == e.Code
}

// Clip shortens s to limit characters and an ellipsis.
func Clip(s string, limit int) string {
	n := 0
	for i := range s {
		if n++; n > limit {
			return s[:i] + "…"
		}
	}
	return s
}

// ContentType is the media type of a rendered Error.
const ContentType = "application/problem+json"

// body is the JSON form: RFC 9457 with extension members of this service.
type body struct {
	Type      string       `json:"type"`
	Title     string       `json:"title"`
	Status    int          `json:"status"`
	Detail    string       `json:"detail"`
	Code      Code         `json:"code"`
	RequestID string       `json:"requestId"`
	Retryable bool         `json:"retryable"`
	Field     string       `json:"field,omitzero"`
	Errors    []FieldError `json:"errors,omitempty"`
}

// JSON returns the body of a response to the request with this id.
func (e *Error) JSON(requestID string) []byte {
	k := e.Code.kind()
	out := body{
		Type: "about:blank", Title: e.Code.Title(), Status: k.status, Detail: e.Detail, Code: k.code, RequestID: requestID,
		Retryable: k.retryable, Errors: e.Fields,
	}
	if len(e.Fields) > 0 {
		out.Field = e.Fields[0].Field
	}
	// A detail may quote bytes of the request. Invalid UTF-8 becomes U+FFFD, so marshalling cannot fail.
	encoded, err := json.Marshal(out, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return []byte(`{"type":"about:blank","title":"Internal Server Error","status":500,"code":"internal","retryable":false}`)
	}
	return encoded
}

// Write sends err as a response: headers, status and body. An error without an *Error in its chain is sent as internal,
// without its text. w must be unwritten. Errors of the connection are ignored.
func Write(w http.ResponseWriter, requestID string, err error) {
	e := From(err)
	if e == nil {
		e = Internal(nil)
	}
	k := e.Code.kind()

	encoded := e.JSON(requestID)
	h := w.Header()
	for _, stale := range []string{"Content-Encoding", "Etag", "Last-Modified", "Location"} {
		h.Del(stale)
	}
	h.Set("Content-Type", ContentType)
	h.Set("Content-Length", strconv.Itoa(len(encoded)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if k.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if k.retryable || e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(retryAfterSeconds(e.RetryAfter), 10))
	}
	if k.status == http.StatusMethodNotAllowed {
		h.Set("Allow", strings.Join(e.Allow, ", "))
	}
	w.WriteHeader(k.status)
	_, _ = w.Write(encoded)
}

// retryAfterSeconds rounds up to whole seconds, at least one, so that a client that waits this long is not too early.
func retryAfterSeconds(d time.Duration) int64 {
	return max(int64((d+time.Second-1)/time.Second), 1)
}
