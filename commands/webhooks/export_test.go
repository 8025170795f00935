package webhooks

import (
	"crypto/x509"
	"net"
	"net/netip"
	"time"
)

// NewSenderThrough is NewSender with a resolver and trusted roots, nil for those of the system.
func NewSenderThrough(
	allowed []netip.Prefix, now func() time.Time, resolver *net.Resolver, roots *x509.CertPool,
) *Sender {
	return newSender(allowed, now, network{resolver, roots})
}
