package webhooks

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"code.dny.dev/ssrf"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"novelgate/commands/request"
)

// attemptTime is the longest time of a request to an endpoint.
const attemptTime = 15 * time.Second

// Sender sends messages to endpoints. Create it with NewSender.
type Sender struct {
	client      *http.Client
	https, http *ssrf.Guardian // which addresses may be used, in a URL and for a connection
	allowHTTP   bool           // http addresses are allowed
	now         func() time.Time
	timeout     time.Duration // of an attempt
}

// NewSender returns a Sender to public addresses by https, and to addresses in allowed by https or http.
func NewSender(allowed []netip.Prefix, now func() time.Time) *Sender {
	return newSender(allowed, now, nil, attemptTime)
}

// newSender returns a Sender that trusts roots, or with nil those of the system.
func newSender(allowed []netip.Prefix, now func() time.Time, roots *x509.CertPool, timeout time.Duration) *Sender {
	var v4, v6 []netip.Prefix
	for _, prefix := range allowed {
		if prefix.Addr().Is4() {
			v4 = append(v4, prefix)
		} else {
			v6 = append(v6, prefix)
		}
	}
	guard := func(more ...ssrf.Option) *ssrf.Guardian {
		return ssrf.New(append(more, ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...),
			ssrf.WithAllowedV6Prefixes(v6...))...)
	}
	s := &Sender{
		https: guard(), allowHTTP: len(allowed) > 0, now: now, timeout: timeout,
		http: guard(ssrf.WithDeniedV4Prefixes(netip.MustParsePrefix("0.0.0.0/0")),
			ssrf.WithDeniedV6Prefixes(netip.MustParsePrefix("::/0"))),
	}
	transport := newTransport(s.https, roots, timeout)
	transport.RegisterProtocol("http", newTransport(s.http, roots, timeout))
	s.client = &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s
}

// newTransport returns a transport without a proxy. It connects only to the addresses that a guard permits, whatever
// the name resolves to at that moment.
func newTransport(guard *ssrf.Guardian, roots *x509.CertPool, timeout time.Duration) *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Control: guard.Safe, Timeout: timeout}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:    timeout, // net/http goes on with the handshake when the request has timed out
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    1,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 16 << 10,
		DisableCompression:     true,
	}
}

// checkURL returns the error text for the URL of an endpoint, "" for a valid one. The addresses of a host name are
// checked when a connection is made.
func (s *Sender) checkURL(text string) string {
	const maxURL = 2000 // bytes, because an index takes at most 2,704
	within := ""
	if s.allowHTTP {
		within = ", or an address that the host platform allows within its network"
	}
	notVisible := func(r rune) bool { return r <= ' ' || r > '~' }
	u, err := url.Parse(text)
	switch {
	case len(text) > maxURL:
		return fmt.Sprintf("must have at most %d bytes", maxURL)
	case strings.ContainsFunc(text, unicode.IsSpace):
		return "must not contain white space: write a space as %20"
	case err != nil || u.Scheme != "https" && (u.Scheme != "http" || !s.allowHTTP) || u.Hostname() == "" ||
		u.User != nil || u.Fragment != "":
		return "must be an https address with a host, without user information and fragment" + within
	case request.CheckPort(u) != "":
		return request.CheckPort(u)
	case strings.ContainsFunc(u.RawQuery, notVisible): // net/http sends the query unchanged, but encodes the path
		return "must have only ASCII in its query: percent-encode other characters"
	case !s.allowsHost(u):
		return "must be a public address by https" + within +
			"; localhost, other private addresses and names of private networks are refused"
	}
	return ""
}

// allowsHost reports whether the host of a URL is public, or may have an address that the operator allows.
func (s *Sender) allowsHost(u *url.URL) bool {
	guard := s.http
	if u.Scheme == "https" {
		if request.CheckPublicHost(u) == "" {
			return true
		}
		guard = s.https
	}
	if !s.allowHTTP {
		return false
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") { // RFC 6761: always a loopback address
		return guard.SafeAddr(netip.AddrFrom4([4]byte{127, 0, 0, 1})) == nil || guard.SafeAddr(netip.IPv6Loopback()) == nil
	}
	address, err := netip.ParseAddr(host)
	return err != nil || guard.SafeAddr(address.Unmap()) == nil
}

// newSecret returns a new secret and its text form for the partner.
func newSecret() (secret []byte, shown string) {
	secret = make([]byte, 32)
	rand.Read(secret) // never fails
	return secret, "whsec_" + base64.StdEncoding.EncodeToString(secret)
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
		o.Error = new(failure(status, err, s.timeout))
	}
	return o
}

func (s *Sender) post(
	ctx context.Context, address, id string, body []byte, secrets [][]byte,
) (status int, retryAfter time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var reused bool // by the last request
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused },
	}), http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return 0, 0, fmt.Errorf("make request: %w", err)
	}
	at := s.now()
	var signatures []string
	for _, secret := range secrets {
		signer, err := standardwebhooks.NewWebhookRaw(secret)
		if err != nil {
			return 0, 0, fmt.Errorf("use secret: %w", err)
		}
		signature, err := signer.Sign(id, at, body)
		if err != nil {
			return 0, 0, fmt.Errorf("sign: %w", err)
		}
		signatures = append(signatures, signature)
	}
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"Novelgate"}, "Webhook-Id": {id},
		"Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)}, "Webhook-Signature": {strings.Join(signatures, " ")},
	}
	var response *http.Response
	// An endpoint may close an idle connection while a request arrives on it. So the request is repeated at once until a
	// new connection has failed; the webhook-id makes that safe. net/http does it only for some of the errors.
	for again := true; again; again = err != nil && reused && ctx.Err() == nil {
		reused = false
		r.Body, _ = r.GetBody() // never fails
		response, err = s.client.Do(r)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("send: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // the status is known already
	// A short answer is read, so that the connection can be used again. Its end is not awaited otherwise.
	if response.ContentLength <= 4<<10 {
		_, _ = io.CopyN(io.Discard, response.Body, response.ContentLength)
	}
	return response.StatusCode, s.retryAfter(response.Header.Get("Retry-After")), nil
}

// retryAfter parses the header Retry-After: seconds or a date, at most a day. Seconds that no integer holds are more.
func (s *Sender) retryAfter(text string) time.Duration {
	const day = 24 * time.Hour
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(max(seconds, 0), int64(day/time.Second))) * time.Second
	}
	date, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(date.Sub(s.now()), 0), day)
}

// failure returns the error text of an attempt, without internals of the host platform's network: addresses, names,
// answers. It does not tell a name without an address from one with a private address, because the name may be one of
// that network.
func failure(status int, err error, limit time.Duration) string {
	var unresolved *net.DNSError
	var timeout net.Error
	switch {
	case err == nil && status >= http.StatusMultipleChoices && status < http.StatusBadRequest:
		return "redirects are not followed"
	case err == nil:
		return cmp.Or(http.StatusText(status), "unknown status")
	case errors.Is(err, ssrf.ErrProhibitedIP), errors.As(err, &unresolved):
		return "the host has no address that is public and used by https"
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("no answer within %d seconds", int(limit.Seconds()))
	default:
		return cmp.Or(tlsFailure(err), "the connection failed")
	}
}

// tlsFailure returns why no TLS connection was made, "" if err has another reason.
func tlsFailure(err error) string {
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	var authority x509.UnknownAuthorityError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert *net.OpError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the certificate has expired or is not valid yet"
	case errors.As(err, &host):
		return "the certificate is for another host name"
	case errors.As(err, &authority):
		return "the certificate is of an unknown authority, or its chain is not complete"
	case errors.As(err, &certificate):
		return "the certificate is not valid"
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		return "the answer is not TLS, but plain HTTP or another protocol"
	case errors.As(err, &alert) && (alert.Op == "remote error" || alert.Op == "local error"): // as crypto/tls names them
		return "the TLS handshake failed; it needs TLS 1.2 or newer"
	default:
		return ""
	}
}
