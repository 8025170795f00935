package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Repetition says whether a command was a retry.
type Repetition struct {
	Replayed bool `json:"-"` // the key was used before, and this request changed nothing
	Mismatch bool `json:"-"` // the body differs from that of the earlier command, which stays in effect
}

// command sends a command and decodes its answer.
func (s *sender) command(ctx context.Context, method, path, key string, body, answer any) (Repetition, error) {
	if !visible(key) {
		return Repetition{}, fmt.Errorf("idempotency key %q: want 1 to 255 visible ASCII characters", key)
	}
	header, err := s.send(ctx, request{method: method, path: path, key: key, body: body}, answer)
	return Repetition{
		Replayed: header.Get("Idempotent-Replayed") == "true", Mismatch: header.Get("Idempotency-Mismatch") == "true",
	}, err
}

// Do sends a request to a route for which the client has no method, such as those of staff, and decodes the answer,
// unless answer is nil. It repeats the request as the methods do, so its effect must not depend on how often it
// arrives: a POST needs a key, which is "" for other methods. A path begins with a slash.
func (c *Client) Do(ctx context.Context, method, path, key string, body, answer any) error {
	_, err := c.sender.send(ctx, request{method: method, path: path, key: key, body: body}, answer)
	return err
}

// encode returns a value as JSON. It does not escape characters of HTML, because each escape takes six bytes.
func encode(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("encode body: %w", err)
	}
	return buffer.Bytes(), nil
}

// request is an HTTP request that can be repeated.
type request struct {
	method, path string
	key          string // "" for none
	body         any    // what encode accepts; nil for none
	mediaType    string // of the body; "" for JSON
}

// The pauses between attempts double, up to the maximum. Half of each is random, so that clients do not retry at the
// same time.
const (
	firstPause = 200 * time.Millisecond
	maxPause   = 30 * time.Second
)

// call sends a request and returns its answer.
func call[T any](ctx context.Context, s *sender, r request) (answer T, err error) {
	_, err = s.send(ctx, r, &answer)
	return answer, err
}

// send repeats a request until its answer is final or ctx is done, and decodes the answer.
func (s *sender) send(ctx context.Context, r request, answer any) (header http.Header, err error) {
	var body []byte
	if r.body != nil {
		if body, err = encode(r.body); err != nil {
			return nil, err
		}
	}
	err = s.retry(ctx, func() (_ bool, err error) {
		header, err = s.attempt(ctx, r, body, answer)
		return false, err
	})
	return header, err
}

// retry repeats attempt until it succeeds or fails for good, or ctx is done. The pauses begin again with the shortest
// one after an attempt that got something done.
func (s *sender) retry(ctx context.Context, attempt func() (progress bool, err error)) error {
	var before error // why the attempt before failed
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		progress, err := attempt()
		if err == nil || !retryable(err) {
			return err
		}
		if ctx.Err() != nil && before != nil {
			err = before // the end of ctx has broken this attempt off, which says nothing about the service
		}
		before = err
		if progress {
			pause = firstPause
		}
		wait := pause/2 + rand.N(pause/2) //nolint:gosec // no secret
		if refused, ok := errors.AsType[*Error](err); ok && refused.retryAfter > 0 {
			wait += refused.retryAfter // so that it is never earlier than the service asks for
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
			return fmt.Errorf("%w; no time is left for another attempt after %w", context.DeadlineExceeded, err)
		}
		if s.onRetry != nil && ctx.Err() == nil {
			s.onRetry(err, wait)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w after %w", context.Cause(ctx), err)
		case <-time.After(wait):
		}
	}
}

// retryable reports whether to retry a request that failed with err.
func retryable(err error) bool {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused.Retryable
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return false
	}
	return !errors.Is(err, errAnswer) && !errors.Is(err, errRequest)
}

var (
	errRequest = errors.New("make request")
	// errAnswer means that an answer with a successful status does not come from the service.
	errAnswer = errors.New("not an answer of Novelgate")
)

// maxAnswer is the maximum size of an answer, in bytes.
const maxAnswer = 4 << 20

// attempt sends a request once.
func (s *sender) attempt(ctx context.Context, r request, body []byte, answer any) (http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	response, err := s.do(ctx, r, bytes.NewReader(body), len(body))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // it is only read
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if answer == nil { // the answer has no body
		return response.Header, nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return nil, fmt.Errorf("%w: %w", errAnswer, err)
	}
	return response.Header, nil
}

// do sends a request once with its body, and returns an answer with a successful status. The caller closes its body.
func (s *sender) do(ctx context.Context, r request, body io.Reader, size int) (*http.Response, error) {
	sent, err := http.NewRequestWithContext(ctx, r.method, s.base+r.path, body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRequest, err)
	}
	sent.ContentLength = int64(size)
	sent.Header.Set("Authorization", "Bearer "+s.key)
	if size > 0 {
		sent.Header.Set("Content-Type", cmp.Or(r.mediaType, "application/json"))
	}
	if r.key != "" {
		sent.Header.Set("Idempotency-Key", r.key)
		if s.fault != "" {
			sent.Header.Set("Novelgate-Simulate", s.fault)
		}
	}
	response, err := s.http.Do(sent)
	if err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	if response.StatusCode < http.StatusMultipleChoices {
		return response, nil
	}
	defer response.Body.Close() //nolint:errcheck // it is only read
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	return nil, newError(response, text)
}

// Error is an answer of the service that refuses a request.
type Error struct {
	Code      string  `json:"code"`      // for programs, such as novel_rejected; "" if a proxy answered
	Status    int     `json:"status"`    // HTTP status
	Detail    string  `json:"detail"`    // for people
	Fields    []Field `json:"errors"`    // what is invalid
	Retryable bool    `json:"retryable"` // the same request can succeed later
	RequestID string  `json:"requestId"` // quote it when you contact support

	retryAfter time.Duration
}

// Field is an invalid member of a body, or an invalid parameter.
type Field struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Error implements error.
func (e *Error) Error() string {
	text := "novelgate: " + strconv.Itoa(e.Status) + " " + e.Code
	if e.Code == "" {
		text += http.StatusText(e.Status)
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.RequestID != "" {
		text += fmt.Sprintf(" (request %s)", e.RequestID)
	}
	return text
}

// newError returns the error in an answer.
func newError(response *http.Response, body []byte) *Error {
	e := &Error{
		Status: response.StatusCode, RequestID: response.Header.Get("X-Request-Id"),
		retryAfter: retryAfter(response.Header.Get("Retry-After")),
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "application/problem+json") &&
		json.Unmarshal(body, e) == nil {
		return e
	}
	if to := response.Header.Get("Location"); to != "" {
		e.Detail = "The service has moved to " + to
	}
	switch response.StatusCode { // a proxy's status
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		e.Retryable = true
	}
	return e
}

// retryAfter returns the time to wait for which a Retry-After header asks, in seconds or with a date; 0 without any.
func retryAfter(header string) time.Duration {
	if seconds, err := strconv.ParseInt(header, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return pauseOf(seconds)
	}
	if date, err := http.ParseTime(header); err == nil {
		return min(max(0, time.Until(date)), maxRetryAfter)
	}
	return 0
}

// maxRetryAfter limits the time for which an answer asks, so that sums of it do not overflow.
const maxRetryAfter = 365 * 24 * time.Hour

// pauseOf returns a number of seconds as a time to wait.
func pauseOf(seconds int64) time.Duration {
	return time.Duration(min(max(0, seconds), int64(maxRetryAfter/time.Second))) * time.Second
}
