package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client sends the commands and queries of one integration. It may be used concurrently.
type Client struct {
	Novels     Novels
	Posts      Posts
	Deliveries Deliveries
	Changes    Changes
	Webhooks   Webhooks

	sender *sender
}

// sender sends requests with the API key of an integration.
type sender struct {
	base    string // without a trailing slash
	key     string
	http    *http.Client
	timeout time.Duration // of one attempt
	fault   string        // to simulate for commands; "" for none
	onRetry func(err error, wait time.Duration)
}

// Option is an option of New.
type Option func(*sender)

// WithHTTPClient makes the client send requests with h. The default is http.DefaultClient.
func WithHTTPClient(h *http.Client) Option { return func(s *sender) { s.http = h } }

// WithAttemptTimeout limits the time of each attempt, for Bulk the time without any progress. After it the client makes
// another attempt. The default is 20 s, more than the service's own time limit.
func WithAttemptTimeout(d time.Duration) Option { return func(s *sender) { s.timeout = d } }

// WithRetryFunc makes the client call f before each pause between attempts, for instance to log why it waits.
func WithRetryFunc(f func(err error, wait time.Duration)) Option {
	return func(s *sender) { s.onRetry = f }
}

// WithSimulation makes a sandbox simulate a failure of the first request of each idempotency key: unavailable,
// rate_limited, lost_response or slow. It needs the API key of a sandbox: commands with another key are refused.
func WithSimulation(fault string) Option { return func(s *sender) { s.fault = fault } }

// New returns a client of the service at baseURL, such as https://novels.example.org. It sends key, the API key of an
// integration.
func New(baseURL, key string, options ...Option) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return nil, fmt.Errorf("parse base URL: %w", err)
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("base URL %q: want http(s)://host", u.Redacted())
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("base URL %q: want a port from 1 to 65535", u.Redacted())
		}
	}
	if !visible(key) {
		return nil, errors.New("API key: want 1 to 255 visible ASCII characters")
	}
	s := &sender{
		base: strings.TrimRight(u.String(), "/"), key: key, http: http.DefaultClient, timeout: 20 * time.Second,
	}
	for _, option := range options {
		option(s)
	}
	s.http = withoutOtherMethods(s.http)
	return &Client{
		Novels: Novels{s}, Posts: Posts{s}, Deliveries: Deliveries{s}, Changes: Changes{s}, Webhooks: Webhooks{s},
		sender: s,
	}, nil
}

// withoutOtherMethods returns a copy of h that follows no redirect that changes the method. net/http would send a GET
// in place of a POST or a DELETE after 301, 302 and 303, for instance from http to https, and its answer would look
// like that to a command.
func withoutOtherMethods(h *http.Client) *http.Client {
	changed := *h
	changed.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		switch {
		case r.Method != via[0].Method:
			return http.ErrUseLastResponse
		case h.CheckRedirect != nil:
			return h.CheckRedirect(r, via)
		case len(via) >= 10: // as net/http
			return errors.New("stopped after 10 redirects")
		}
		return nil
	}
	return &changed
}

// visible reports whether text consists of 1 to 255 visible ASCII characters.
func visible(text string) bool {
	return text != "" && len(text) <= 255 && strings.IndexFunc(text, func(r rune) bool { return r < '!' || r > '~' }) < 0
}
