package chaos_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"novelgate/internal/blackbox"
)

// partner sends requests with an API key. It is leaner than blackbox.Partner, which holds each exchange against the
// description.
type partner struct {
	t    testing.TB
	id   string
	key  string
	http *http.Client
}

// newPartner takes a partner on, with both capabilities and limits out of the way. flags are added.
func newPartner(t testing.TB, databaseURL string, flags ...string) *partner {
	t.Helper()
	staff := blackbox.Attach("")
	staff.DatabaseURL = databaseURL
	made := staff.CreateIntegration(t, blackbox.Unique("partner"), append([]string{
		"--capability", "novels", "--capability", "posts", "--posts-per-minute", "10000000", "--novels-per-minute",
		"10000000",
	}, flags...)...)
	p := &partner{t: t, id: made.IntegrationID, key: made.APIKey, http: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: patience,
	}}
	t.Cleanup(p.http.CloseIdleConnections)
	return p
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

// send sends a command to the service at base. Errors in the answer are searched for secrets.
func (p *partner) send(base, path, key string, body []byte, closing bool) (a answer) {
	a.sent = time.Now()
	defer func() { a.took = time.Since(a.sent) }()
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, base+path, bytes.NewReader(body))
	if err != nil {
		a.err = err
		return a
	}
	request.GetBody = nil // so that the client does not repeat it by itself
	request.Close = closing
	request.Header.Set("Authorization", "Bearer "+p.key)
	request.Header.Set("Idempotency-Key", key)
	request.Header.Set("Content-Type", "application/json")
	response, err := p.http.Do(request)
	if err != nil {
		a.err = err
		return a
	}
	defer func() { _ = response.Body.Close() }()
	a.status, a.header = response.StatusCode, response.Header
	a.body, a.err = io.ReadAll(response.Body)
	if a.status >= http.StatusBadRequest {
		wantNoSecret(p.t, "an error", a.body)
	}
	return a
}

// ask sends a query and returns the status of the answer.
func (p *partner) ask(method, address, body string) int {
	p.t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, address, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+p.key)
	request.Header.Set("Content-Type", "application/json")
	response, err := p.http.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	_ = response.Body.Close() // the status says it
	return response.StatusCode
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
