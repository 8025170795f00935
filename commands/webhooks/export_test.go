package webhooks

import (
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
