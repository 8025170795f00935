package webhooks

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// Limits of a request.
const (
	attemptTime   = 15 * time.Second
	maxHeader     = 16 << 10
	idleTime      = 30 * time.Second
	maxIdle       = 64
	maxDrain      = 4 << 10 // bytes of an answer that are read, to reuse the connection
	maxRetryAfter = 24 * time.Hour
	maxURL        = 2000 // bytes, because an index takes at most 2,704
)

// Error texts of checkURL.
const (
	wantHTTPS  = "must be an https address with a host, without user information and fragment"
	wantPublic = "must be a public address by https"
	orAllowed  = ", or an address that the host platform allows within its network"
)

// Sender sends messages to endpoints. Create it with NewSender.
type Sender struct {
	client    *http.Client
	rules     map[string]rule // by scheme
	allowHTTP bool            // http addresses are allowed
	now       func() time.Time
}

// rule fails for an IP address to which nothing may be sent. It checks addresses in URLs, and the address of every
// connection.
type rule func(netip.Addr) error

// network is how a Sender finds and verifies endpoints. A nil field is the default of the system.
type network struct {
	resolver *net.Resolver
	roots    *x509.CertPool
}

// NewSender returns a Sender to public addresses by https, and to addresses in allowed by https or http.
func NewSender(allowed []netip.Prefix, now func() time.Time) *Sender {
	return newSender(allowed, now, network{})
}

func newSender(allowed []netip.Prefix, now func() time.Time, through network) *Sender {
	var v4, v6 []netip.Prefix
	for _, prefix := range allowed {
		if prefix.Addr().Is4() {
			v4 = append(v4, prefix)
		} else {
			v6 = append(v6, prefix)
		}
	}
	within := func(address netip.Addr) error {
		if slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Contains(address) }) {
			return nil
		}
		return ssrf.ErrProhibitedIP
	}
	s := &Sender{allowHTTP: len(allowed) > 0, now: now, rules: map[string]rule{
		"https": ssrf.New(ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...)).SafeAddr,
		"http":  within,
	}}
	transports := map[string]*http.Transport{}
	for scheme, check := range s.rules {
		transports[scheme] = transport(check, through)
	}
	s.client = &http.Client{
		Timeout: attemptTime,
		Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			return transports[r.URL.Scheme].RoundTrip(r)
		}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// transport returns a transport without a proxy. It connects only to the addresses that a rule permits.
func transport(check rule, through network) *http.Transport {
	control := func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return ssrf.ErrProhibitedIP
		}
		return check(at.Addr().Unmap())
	}
	return &http.Transport{
		DialContext:            (&net.Dialer{Control: control, Timeout: attemptTime, Resolver: through.resolver}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: through.roots},
		TLSHandshakeTimeout:    attemptTime, // net/http goes on with the handshake when the request has timed out
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    1,
		IdleConnTimeout:        idleTime,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true,
	}
}

// checkURL returns the error text for the URL of an endpoint, "" for a valid one. The IP addresses of a host name are
// checked when a connection is made.
func (s *Sender) checkURL(text string) string {
	u, err := url.Parse(text)
	wrong := ""
	switch {
	case len(text) > maxURL:
		return fmt.Sprintf("must have at most %d bytes", maxURL)
	case err != nil || u.Scheme != "https" && (u.Scheme != "http" || !s.allowHTTP) || u.Hostname() == "" ||
		u.User != nil || u.Fragment != "":
		wrong = wantHTTPS
	default:
		if address, err := netip.ParseAddr(u.Hostname()); err == nil && s.rules[u.Scheme](address.Unmap()) != nil {
			wrong = wantPublic
		}
	}
	if wrong != "" && s.allowHTTP {
		wrong += orAllowed
	}
	return wrong
}

// Outcome is the outcome of an attempt for its partner.
type Outcome struct {
	Delivered    bool    `json:"delivered"`
	Status       *int    `json:"status"` // nil without an answer
	Error        *string `json:"error"`
	Milliseconds int     `json:"milliseconds"`

	retryAfter time.Duration
}

// gone reports whether the endpoint asked to stop (410).
func (o *Outcome) gone() bool { return o.Status != nil && *o.Status == http.StatusGone }

// send sends a message once.
func (s *Sender) send(ctx context.Context, address, id string, body []byte, secrets ...[]byte) Outcome {
	began := s.now()
	status, retryAfter, err := s.post(ctx, address, id, body, secrets)
	o := Outcome{Milliseconds: int(s.now().Sub(began).Milliseconds()), retryAfter: retryAfter}
	if status != 0 {
		o.Status = &status
	}
	o.Delivered = err == nil && status >= http.StatusOK && status < http.StatusMultipleChoices
	if !o.Delivered {
		o.Error = new(failure(status, err))
	}
	return o
}

func (s *Sender) post(
	ctx context.Context, address, id string, body []byte, secrets [][]byte,
) (status int, retryAfter time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return 0, 0, fmt.Errorf("make request: %w", err)
	}
	at := s.now()
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"Novelgate"}, "Webhook-Id": {id},
		"Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)}, "Webhook-Signature": {sign(id, at, body, secrets...)},
	}
	response, err := s.client.Do(r)
	if err != nil {
		return 0, 0, fmt.Errorf("send: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // the status is known already
	if response.ContentLength <= maxDrain {
		_, _ = io.CopyN(io.Discard, response.Body, response.ContentLength)
	}
	return response.StatusCode, s.retryAfter(response.Header.Get("Retry-After")), nil
}

// retryAfter parses the header Retry-After: seconds or a date, at most a day.
func (s *Sender) retryAfter(text string) time.Duration {
	seconds, err := strconv.ParseInt(text, 10, 32)
	wait := time.Duration(seconds) * time.Second
	if err != nil {
		date, err := http.ParseTime(text)
		if err != nil {
			return 0
		}
		wait = date.Sub(s.now())
	}
	return min(max(wait, 0), maxRetryAfter)
}

// failure returns the error text of an attempt, without internals of the host platform's network: addresses, names,
// answers.
func failure(status int, err error) string {
	var unresolved *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var timeout net.Error
	switch {
	case err == nil && status >= http.StatusMultipleChoices && status < http.StatusBadRequest:
		return "redirects are not followed"
	case err == nil:
		return cmp.Or(http.StatusText(status), "unknown status")
	case errors.Is(err, ssrf.ErrProhibitedIP):
		return "the address must be public, and used by https"
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("no answer within %d seconds", int(attemptTime.Seconds()))
	case errors.As(err, &unresolved):
		return "the name cannot be resolved"
	case errors.As(err, &certificate):
		return "the certificate is not valid"
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return "the answer is not TLS"
	default:
		return "the connection failed"
	}
}
