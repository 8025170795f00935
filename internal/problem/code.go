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
	code      Code
	status    int
	retryable bool
}

// kinds has all codes. A code that is not here gets the last kind.
var kinds = [...]kind{
	{CodeUnauthorized, http.StatusUnauthorized, false},
	{CodeCapabilityDisabled, http.StatusForbidden, false},
	{CodeInvalidRequest, http.StatusBadRequest, false},
	{CodeInvalidIdempotencyKey, http.StatusBadRequest, false},
	{CodeNovelNotFound, http.StatusNotFound, false},
	{CodeNovelRejected, http.StatusConflict, false},
	{CodeAuthorBlocked, http.StatusForbidden, false},
	{CodeRequestTimeout, http.StatusRequestTimeout, true},
	{CodePayloadTooLarge, http.StatusRequestEntityTooLarge, false},
	{CodeUnsupportedMediaType, http.StatusUnsupportedMediaType, false},
	{CodeRateLimited, http.StatusTooManyRequests, true},
	{CodeUnavailable, http.StatusServiceUnavailable, true},
	{CodeNotFound, http.StatusNotFound, false},
	{CodeGone, http.StatusGone, false},
	{CodeMethodNotAllowed, http.StatusMethodNotAllowed, false},
	{CodeForbidden, http.StatusForbidden, false},
	{CodeInvalidTransition, http.StatusConflict, false},
	{CodeConflict, http.StatusConflict, false},
	{CodeInternal, http.StatusInternalServerError, false},
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

// Title returns the reason phrase of the status (RFC 9110), which RFC 9457 requires for the type about:blank.
func (c Code) Title() string {
	if c == CodePayloadTooLarge {
		return "Content Too Large" // net/http has the phrase of an older RFC
	}
	return http.StatusText(c.Status())
}

// Retryable reports whether the unchanged request can succeed later.
func (c Code) Retryable() bool { return c.kind().retryable }

func (c Code) kind() kind {
	i := slices.IndexFunc(kinds[:], func(k kind) bool { return k.code == c })
	if i < 0 {
		i = len(kinds) - 1
	}
	return kinds[i]
}
