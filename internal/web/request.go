package web

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"

	"novelgate/internal/problem"
)

// Bearer returns the API key in the Authorization header (RFC 6750: the scheme in any case, one space or more). The
// error is a *problem.Error with the code unauthorized.
func Bearer(h http.Header) (string, error) {
	headers := h.Values("Authorization")
	if len(headers) != 1 {
		return "", problem.New(problem.CodeUnauthorized, "Send one Authorization header: Bearer <API key>.")
	}
	scheme, key, ok := strings.Cut(headers[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", problem.New(problem.CodeUnauthorized, "Send the API key as Authorization: Bearer <API key>.")
	}
	return strings.Trim(key, " "), nil
}

// ReadJSON reads a body of at most limit bytes with the media type application/json and any parameters, and without a
// Content-Encoding. The error is a *problem.Error.
func ReadJSON(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, err error) {
	const mediaType = "application/json"
	if sent := r.Header.Get("Content-Type"); !IsMediaType(sent, mediaType) {
		return nil, problem.UnsupportedMediaType(mediaType, sent)
	}
	if _, err := ContentCoding(r.Header); err != nil {
		return nil, err
	}
	switch {
	case r.ContentLength > limit:
		return nil, problem.PayloadTooLarge(limit)
	case r.ContentLength >= 0:
		body = make([]byte, r.ContentLength)
		_, err = io.ReadFull(r.Body, body)
	default:
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	}
	if err == nil {
		return body, nil
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, problem.PayloadTooLarge(limit)
	}
	return nil, BrokenBody(err)
}

// IsMediaType reports whether a Content-Type is a media type, with any parameters.
func IsMediaType(sent, want string) bool {
	if sent == want { // the usual case
		return true
	}
	got, _, err := mime.ParseMediaType(sent)
	return (err == nil || errors.Is(err, mime.ErrInvalidMediaParameter)) && got == want
}

// ContentCoding returns how a body is packed (Content-Encoding): "" or one of taken. The error is a *problem.Error.
func ContentCoding(h http.Header, taken ...string) (string, error) {
	sent := strings.Join(h.Values("Content-Encoding"), ", ") // several lines are one list
	coding := strings.ToLower(sent)
	if coding == "" || coding == "identity" {
		return "", nil
	}
	if !slices.Contains(taken, coding) {
		return "", problem.UnsupportedCoding(sent, taken...)
	}
	return coding, nil
}

// BrokenBody returns the problem for a body that could not be read: 408 if it arrives too slowly, otherwise 400. In the
// latter case it ended early, or its chunks are malformed.
func BrokenBody(err error) *problem.Error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problem.ErrRequestTimeout.WithCause(err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return problem.MalformedBody("The request body ended early.").WithCause(err)
	default:
		return problem.MalformedBody("The chunks of the request body (Transfer-Encoding) are malformed.").WithCause(err)
	}
}

// MaxKey is the greatest length of a key in bytes.
const MaxKey = 255

// IdempotencyKey returns the key of a request, parsed by ParseKey. A repeated header is refused. The error is a
// *problem.Error with the code invalid_idempotency_key.
func IdempotencyKey(h http.Header) (string, error) {
	var wrong string
	switch values := h.Values("Idempotency-Key"); len(values) {
	case 0:
		wrong = "is missing"
	case 1:
		var key string
		if key, wrong = ParseKey(values[0]); wrong == "" {
			return key, nil
		}
	default:
		wrong = "must occur once, but is repeated"
	}
	return "", problem.New(problem.CodeInvalidIdempotencyKey, "The Idempotency-Key header "+wrong+".")
}

// ParseKey reads a key: 1 to 255 bytes of visible ASCII (0x21 to 0x7E). A value in double quotes is a string of RFC
// 8941, as in the IETF draft of the header, and is unwrapped; "abc" and abc are the same key. A double quote at one end
// only is malformed. Blanks around the key are trimmed. A comma has no special meaning. wrong is the error text without
// its subject, "" for a valid key.
func ParseKey(sent string) (key, wrong string) {
	key = strings.Trim(sent, " \t")
	if strings.HasPrefix(key, `"`) || strings.HasSuffix(key, `"`) {
		if !quotedString.MatchString(key) {
			return "", `is not a complete quoted string: a quote or a backslash inside is written \" or \\`
		}
		key = unescape.Replace(key[1 : len(key)-1])
	}
	switch {
	case key == "":
		return "", "is empty"
	case len(key) > MaxKey:
		return "", "must have at most 255 bytes, got " + Thousands(len(key))
	}
	for i := range len(key) {
		if key[i] < 0x21 || key[i] > 0x7E {
			return "", "must be visible ASCII (0x21 to 0x7E), without spaces"
		}
	}
	return key, ""
}

// A string of RFC 8941, section 4.2.5, and its two escapes. The bytes inside are checked after unwrapping.
var (
	quotedString = regexp.MustCompile(`^"(?s:[^"\\]|\\["\\])*"$`)
	unescape     = strings.NewReplacer(`\"`, `"`, `\\`, `\`)
)
