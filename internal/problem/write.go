package problem

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ContentType is the media type of every error body.
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
	// of the next part of an import
	ExpectedOffset *int64 `json:"expectedOffset,omitzero"`
}

// JSON returns err as the body of a response to the request with an id.
func (e *Error) JSON(requestID string) []byte {
	k := e.Code.kind()
	out := body{
		Type: "about:blank", Title: k.title, Status: k.status, Detail: e.Detail, Code: k.code, RequestID: requestID,
		Retryable: k.retryable, Errors: e.Fields, ExpectedOffset: e.Offset,
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
// without its text. Nothing may have been written to w before. Errors of the connection are ignored.
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

// retryAfterSeconds rounds up, so that a client that waits this time is not too early.
func retryAfterSeconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return max(seconds, 1)
}
