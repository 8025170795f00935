package httpkit

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"novelgate/internal/problem"
)

// Bearer returns the key in the Authorization header (RFC 6750: the scheme in any case, one space or more). The error
// is a *problem.Error with the code unauthorized, in which what names the key.
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

// ReadJSON reads a body of at most limit bytes with the media type application/json and any parameters. The buffer
// grows with the bytes that arrive. The error is a *problem.Error: among others, 429 if bodies of the caller take too
// much memory, and 503 if those of others leave too little. Staff have the caller uuid.Nil, and get 503 in both cases.
// If the error is nil, call ReleaseBody after the answer.
func (k *Kit) ReadJSON(w http.ResponseWriter, r *http.Request, caller uuid.UUID, limit int64) ([]byte, error) {
	if sent := r.Header.Get("Content-Type"); !IsMediaType(sent, "application/json") {
		return nil, problem.UnsupportedMediaType(sent)
	}
	if r.ContentLength > limit {
		return nil, problem.PayloadTooLarge(limit)
	}
	from, size := r.Body, r.ContentLength
	if size < 0 { // unknown
		from, size = http.MaxBytesReader(w, r.Body, limit), limit+1
	}
	body, err := k.bodies.read(caller, from, int(size))
	if err == nil && int64(len(body)) < r.ContentLength {
		k.ReleaseBody(caller, body)
		err = io.ErrUnexpectedEOF
	}
	var refused *problem.Error
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &refused):
		return nil, err
	case errors.As(err, &tooLarge):
		return nil, problem.PayloadTooLarge(limit)
	default:
		return nil, BrokenBody(err)
	}
}

// Reserve reserves memory for a body that is read piece by piece, as ReadJSON does. release returns it.
func (k *Kit) Reserve(caller uuid.UUID, bytes int) (release func(), err error) {
	if err := k.bodies.take(caller, bytes); err != nil {
		return nil, err
	}
	return func() { k.bodies.release(caller, bytes) }, nil
}

// ReleaseBody returns the memory of a body of ReadJSON.
func (k *Kit) ReleaseBody(caller uuid.UUID, body []byte) { k.bodies.release(caller, cap(body)) }

// refusedBodyTime is the time for the rest of a body to arrive after its request was refused.
const refusedBodyTime = 500 * time.Millisecond

// abandonBody shortens the read deadline of a request before its refusal. net/http reads the rest of the body before it
// sends the refusal, to reuse the connection, and would wait for it as long as for any body.
func abandonBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		// A writer without this feature, such as a recorder in a test, does not wait either.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusedBodyTime)) //nolint:forbidigo // the clock of the connection
	}
}

// CloseUnread closes the connection after the answer to a GET or HEAD with a body. No route reads such a body, and
// net/http would wait for it, before it sends the answer and afterwards.
func CloseUnread(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			abandonBody(w, r)
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
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
	case errors.Is(err, io.ErrUnexpectedEOF):
		return problem.MalformedBody("The request body ended early.").WithCause(err)
	default:
		return problem.MalformedBody("The chunks of the request body (Transfer-Encoding) are malformed.").WithCause(err)
	}
}
