package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"
)

// newPartner takes a partner on, with both capabilities and limits out of the way. flags are added.
func newPartner(t testing.TB, databaseURL string, flags ...string) *Partner {
	t.Helper()
	staff := Attach("")
	staff.DatabaseURL = databaseURL
	made := staff.CreateIntegration(t, Unique("partner"), append([]string{
		"--capability", "novels", "--capability", "posts", "--posts-per-minute", "10000000", "--novels-per-minute",
		"10000000",
	}, flags...)...)
	t.Cleanup(staff.http.CloseIdleConnections)
	return &Partner{NewIntegration: made, Service: staff}
}

// answer is what came of one request.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error // no whole answer came
	sent   time.Time
	took   time.Duration
}

// send sends a command to the service at base, once, and fails no test when no answer comes. An error may hold no
// secret.
func (p *Partner) send(t testing.TB, base, path, key string, body []byte, closing bool) (a answer) {
	a.sent = time.Now()
	defer func() { a.took = time.Since(a.sent) }()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, base+path, bytes.NewReader(body))
	if err != nil {
		a.err = err
		return a
	}
	request.GetBody = nil // so that the client does not repeat it by itself
	request.Close = closing
	request.Header.Set("Authorization", "Bearer "+p.APIKey)
	request.Header.Set("Idempotency-Key", key)
	request.Header.Set("Content-Type", "application/json")
	response, err := p.Service.http.Do(request)
	if err != nil {
		a.err = err
		return a
	}
	defer func() { _ = response.Body.Close() }()
	a.status, a.header = response.StatusCode, response.Header
	a.body, a.err = io.ReadAll(response.Body)
	if a.status >= http.StatusBadRequest {
		wantNoSecret(t, "an error", a.body)
	}
	return a
}

// succeeded reports whether the command was acknowledged.
func (a answer) succeeded() bool {
	return a.err == nil && (a.status == http.StatusCreated || a.status == http.StatusOK)
}

// unavailable reports whether the answer is the one for a database that is away, as it has to be: 503 with Retry-After.
func (a answer) unavailable() bool {
	return a.err == nil && a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") != "" &&
		bytes.Contains(a.body, []byte(`"code":"unavailable"`))
}

// refused reports whether the connection was not taken: nothing listens there any more, or one that was open has ended
// before an answer.
func (a answer) refused() bool {
	return a.status == 0 && errors.Is(a.err, io.EOF) || errors.Is(a.err, syscall.ECONNREFUSED) ||
		errors.Is(a.err, syscall.ECONNRESET) || errors.Is(a.err, syscall.EPIPE)
}
