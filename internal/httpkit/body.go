package httpkit

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"

	"novelgate/internal/problem"
)

// Bearer returns the key in the Authorization header (RFC 6750: the scheme in any case, one space or more). what names
// the key in the error, a *problem.Error with the code unauthorized.
func Bearer(h http.Header, what string) (string, error) {
	headers := h.Values("Authorization")
	if len(headers) != 1 {
		return "", problem.Unauthorized("Send one Authorization header: Bearer <" + what + ">.")
	}
	scheme, key, ok := strings.Cut(headers[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", problem.Unauthorized("Send the " + what + " as Authorization: Bearer <" + what + ">.")
	}
	return strings.Trim(key, " "), nil
}

// ReadJSON reads a body of at most limit bytes whose media type is application/json, with any parameters. The error is
// a *problem.Error.
func ReadJSON(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if err := checkMediaType(r.Header.Get("Content-Type")); err != nil {
		return nil, err
	}
	if r.ContentLength > limit {
		return nil, problem.PayloadTooLarge(limit)
	}
	if r.ContentLength > 0 {
		body := make([]byte, r.ContentLength)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			return nil, brokenBody(err)
		}
		return body, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, problem.PayloadTooLarge(limit)
	case err != nil:
		return nil, brokenBody(err)
	}
	return body, nil
}

func checkMediaType(sent string) error {
	if sent == "application/json" { // nearly always
		return nil
	}
	mediaType, _, err := mime.ParseMediaType(sent)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) || mediaType != "application/json" {
		return problem.UnsupportedMediaType(sent)
	}
	return nil
}

// brokenBody tells a body that comes too slowly from one that is not whole.
func brokenBody(err error) *problem.Error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return problem.RequestTimeout().WithCause(err)
	}
	return problem.MalformedBody("The request body ended early.").WithCause(err)
}
