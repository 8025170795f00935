package webhooks

import (
	"crypto/x509"
	"net"
	"net/netip"
	"time"
)

// NewSenderThrough is NewSender with a resolver, trusted roots, and the longest time of a request; a zero one is the
// default.
func NewSenderThrough(
	allowed []netip.Prefix, now func() time.Time, resolver *net.Resolver, roots *x509.CertPool, timeout time.Duration,
) *Sender {
	return newSender(allowed, now, network{resolver, roots, timeout})
}
