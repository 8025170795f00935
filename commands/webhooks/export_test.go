package webhooks

import (
	"context"
	"crypto/x509"
	"net/netip"
	"time"
)

// NewSenderThrough is NewSender with trusted roots and the longest time of a request.
func NewSenderThrough(
	allowed []netip.Prefix, now func() time.Time, roots *x509.CertPool, timeout time.Duration,
) *Sender {
	return newSender(allowed, now, roots, timeout)
}

// Failure is failure.
var Failure = failure

// Send is send.
func (s *Sender) Send(ctx context.Context, address, id string, body []byte, secrets ...[]byte) Outcome {
	return s.send(ctx, address, id, body, secrets...)
}
