// Package problem defines the error type of HTTP responses, and renders it as application/problem+json (RFC 9457).
//
// Handlers return errors; Write renders them. Any error that is not an *Error is rendered as an internal error without
// its text.
package problem

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"novelgate/internal/title"
)

// Code is the stable, machine-readable name of an error. Clients branch on it; metrics use it as a label.
type Code string

// The codes of all problems.
const (
	CodeUnauthorized          Code = "unauthorized"
	CodeCapabilityDisabled    Code = "capability_disabled"
	CodeInvalidRequest        Code = "invalid_request"
	CodeInvalidIdempotencyKey Code = "invalid_idempotency_key"
	CodeNovelNotFound         Code = "novel_not_found"
	CodeNovelRejected         Code = "novel_rejected"
	CodeAuthorBlocked         Code = "author_blocked"
	CodeRequestTimeout        Code = "request_timeout"
	CodePayloadTooLarge       Code = "payload_too_large"
	CodeUnsupportedMediaType  Code = "unsupported_media_type"
	CodeRateLimited           Code = "rate_limited"
	CodeUnavailable           Code = "unavailable"
	CodeNotFound              Code = "not_found"
	CodeGone                  Code = "gone"
	CodeMethodNotAllowed      Code = "method_not_allowed"
	CodeForbidden             Code = "forbidden"
	CodeInvalidTransition     Code = "invalid_transition"
	CodeConflict              Code = "conflict"
	CodeInternal              Code = "internal"
)

// kind has the fixed properties of a code.
type kind struct {
	status    int
	retryable bool
}

var kinds = map[Code]kind{
	CodeUnauthorized:          {http.StatusUnauthorized, false},
	CodeCapabilityDisabled:    {http.StatusForbidden, false},
	CodeInvalidRequest:        {http.StatusBadRequest, false},
	CodeInvalidIdempotencyKey: {http.StatusBadRequest, false},
	CodeNovelNotFound:         {http.StatusNotFound, false},
	CodeNovelRejected:         {http.StatusConflict, false},
	CodeAuthorBlocked:         {http.StatusForbidden, false},
	CodeRequestTimeout:        {http.StatusRequestTimeout, true},
	CodePayloadTooLarge:       {http.StatusRequestEntityTooLarge, false},
	CodeUnsupportedMediaType:  {http.StatusUnsupportedMediaType, false},
	CodeRateLimited:           {http.StatusTooManyRequests, true},
	CodeUnavailable:           {http.StatusServiceUnavailable, true},
	CodeNotFound:              {http.StatusNotFound, false},
	CodeGone:                  {http.StatusGone, false},
	CodeMethodNotAllowed:      {http.StatusMethodNotAllowed, false},
	CodeForbidden:             {http.StatusForbidden, false},
	CodeInvalidTransition:     {http.StatusConflict, false},
	CodeConflict:              {http.StatusConflict, false},
	CodeInternal:              {http.StatusInternalServerError, false},
}

// All returns every code.
func All() []Code { return slices.Sorted(maps.Keys(kinds)) }

// Status returns the HTTP status of a code; 500 for one that is not in All.
func (c Code) Status() int { return cmp.Or(kinds[c].status, http.StatusInternalServerError) }

// Title returns the reason phrase of the status (RFC 9110), which RFC 9457 requires for the type about:blank.
func (c Code) Title() string {
	if c == CodePayloadTooLarge {
		return "Content Too Large" // net/http has the phrase of an older RFC
	}
	return http.StatusText(c.Status())
}

// Retryable reports whether the unchanged request can succeed later.
func (c Code) Retryable() bool { return kinds[c].retryable }

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

// Unsentence returns the text of the error of which Sentence has made a detail.
func Unsentence(detail string) string {
	text := strings.TrimSuffix(detail, ".")
	return strings.ToLower(text[:min(1, len(text))]) + text[min(1, len(text)):]
}

// New returns an Error without fields. detail is a sentence.
func New(code Code, detail string) *Error { return &Error{Code: code, Detail: detail} }

// Refusals with one detail.
var (
	ErrNovelNotFound = New(CodeNovelNotFound,
		"No published or approved novel has this title, and this integration cannot create it.")
	ErrNovelRejected = New(CodeNovelRejected,
		"The staff of the host platform declined this title. It cannot be imported again.")
	ErrAuthorBlocked = New(CodeAuthorBlocked,
		"The staff of the host platform blocked this author. Their comments are not accepted.")
	ErrRequestTimeout = New(CodeRequestTimeout, "The request body did not arrive in time. Repeat the request.")
	ErrNotFound       = New(CodeNotFound, "There is nothing at this address.")
	ErrGone           = New(CodeGone, "The staff of the host platform removed what was at this address.")
)

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
func MalformedBody(detail string) *Error { return New(CodeInvalidRequest, detail) }

// InvalidField is an InvalidRequest about one field or parameter.
func InvalidField(field, message string) *Error {
	return InvalidRequest(FieldError{Field: field, Message: message})
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
		Code:   CodeUnsupportedMediaType,
		Detail: fmt.Sprintf("The Content-Type must be %s, got %q.", want, title.Clip(got, 100)),
	}
}

// UnsupportedCoding means that the Content-Encoding got is none of those that the route takes.
func UnsupportedCoding(got string, taken ...string) *Error {
	return New(CodeUnsupportedMediaType, fmt.Sprintf("The Content-Encoding must be %s, got %q.",
		strings.Join(append(taken, "absent"), " or "), title.Clip(got, 100)))
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

// MethodNotAllowed lists the methods of the path.
func MethodNotAllowed(allow ...string) *Error {
	detail := "The address exists, but not for this method. Allowed: " + strings.Join(allow, ", ") + "."
	return &Error{Code: CodeMethodNotAllowed, Detail: detail, Allow: allow}
}

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

// Is reports whether target is an *Error of the same code, so that errors.Is(err, problem.ErrNovelNotFound) compares
// only the code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t != nil && t.Code == e.Code
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
	out := body{
		Type: "about:blank", Title: e.Code.Title(), Status: e.Code.Status(), Detail: e.Detail, Code: e.Code,
		RequestID: requestID, Retryable: e.Code.Retryable(), Errors: e.Fields,
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
	status := e.Code.Status()
	encoded := e.JSON(requestID)
	h := w.Header()
	for _, stale := range []string{"Content-Encoding", "Etag", "Last-Modified", "Location"} {
		h.Del(stale)
	}
	h.Set("Content-Type", ContentType)
	h.Set("Content-Length", strconv.Itoa(len(encoded)))
	h.Set("Cache-Control", "no-store")
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if e.Code.Retryable() || e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(retryAfterSeconds(e.RetryAfter), 10))
	}
	if status == http.StatusMethodNotAllowed {
		h.Set("Allow", strings.Join(e.Allow, ", "))
	}
	w.WriteHeader(status)
	_, _ = w.Write(encoded)
}

// retryAfterSeconds rounds up to whole seconds, at least one, so that a client that waits this long is not too early.
func retryAfterSeconds(d time.Duration) int64 {
	return max(int64((d+time.Second-1)/time.Second), 1)
}
