package web

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"

	"novelgate/internal/problem"
)

// Bearer returns the API key in the Authorization header (RFC 6750: the scheme in any case, one space or more). The
// error is a *problem.Error with the code unauthorized.
func Bearer(h http.Header) (string, error) {
	headers := h.Values("Authorization")
	if len(headers) != 1 {
		return "", problem.Unauthorized("Send one Authorization header: Bearer <API key>.")
	}
	scheme, key, ok := strings.Cut(headers[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", problem.Unauthorized("Send the API key as Authorization: Bearer <API key>.")
	}
	return strings.Trim(key, " "), nil
}

// ReadJSON reads a body of at most limit bytes with the media type application/json and any parameters. The error is a
// *problem.Error.
func ReadJSON(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, err error) {
	const mediaType = "application/json"
	if sent := r.Header.Get("Content-Type"); !IsMediaType(sent, mediaType) {
		return nil, problem.UnsupportedMediaType(mediaType, sent)
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

// BrokenBody returns the problem for a body that could not be read: 408 if it arrives too slowly, otherwise 400. In the
// latter case it ended early, or its chunks are malformed.
func BrokenBody(err error) *problem.Error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problem.RequestTimeout().WithCause(err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return problem.MalformedBody("The request body ended early.").WithCause(err)
	default:
		return problem.MalformedBody("The chunks of the request body (Transfer-Encoding) are malformed.").WithCause(err)
	}
}
