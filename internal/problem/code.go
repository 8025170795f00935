package problem

import (
	"net/http"
	"slices"
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
	code   Code
	status int
	// title is the reason phrase of the status (RFC 9110), which RFC 9457 requires for the type about:blank.
	title     string
	retryable bool
}

// kinds has all codes. A code that is not here gets the last kind.
var kinds = [...]kind{
	{CodeUnauthorized, http.StatusUnauthorized, "Unauthorized", false},
	{CodeCapabilityDisabled, http.StatusForbidden, "Forbidden", false},
	{CodeInvalidRequest, http.StatusBadRequest, "Bad Request", false},
	{CodeInvalidIdempotencyKey, http.StatusBadRequest, "Bad Request", false},
	{CodeNovelNotFound, http.StatusNotFound, "Not Found", false},
	{CodeNovelRejected, http.StatusConflict, "Conflict", false},
	{CodeAuthorBlocked, http.StatusForbidden, "Forbidden", false},
	{CodeRequestTimeout, http.StatusRequestTimeout, "Request Timeout", true},
	{CodePayloadTooLarge, http.StatusRequestEntityTooLarge, "Content Too Large", false},
	{CodeUnsupportedMediaType, http.StatusUnsupportedMediaType, "Unsupported Media Type", false},
	{CodeRateLimited, http.StatusTooManyRequests, "Too Many Requests", true},
	{CodeUnavailable, http.StatusServiceUnavailable, "Service Unavailable", true},
	{CodeNotFound, http.StatusNotFound, "Not Found", false},
	{CodeGone, http.StatusGone, "Gone", false},
	{CodeMethodNotAllowed, http.StatusMethodNotAllowed, "Method Not Allowed", false},
	{CodeForbidden, http.StatusForbidden, "Forbidden", false},
	{CodeInvalidTransition, http.StatusConflict, "Conflict", false},
	{CodeConflict, http.StatusConflict, "Conflict", false},
	{CodeInternal, http.StatusInternalServerError, "Internal Server Error", false},
}

// All returns every code.
func All() []Code {
	codes := make([]Code, len(kinds))
	for i, k := range kinds {
		codes[i] = k.code
	}
	return codes
}

// Status returns the HTTP status of a code; 500 for one that is not in All.
func (c Code) Status() int { return c.kind().status }

// Title returns the reason phrase of the status.
func (c Code) Title() string { return c.kind().title }

// Retryable reports whether the unchanged request can succeed later.
func (c Code) Retryable() bool { return c.kind().retryable }

func (c Code) kind() kind {
	i := slices.IndexFunc(kinds[:], func(k kind) bool { return k.code == c })
	if i < 0 {
		i = len(kinds) - 1
	}
	return kinds[i]
}
