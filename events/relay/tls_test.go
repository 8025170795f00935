package relay_test

import (
	"strings"
	"testing"

	"novelgate/events/relay"
	"novelgate/events/relay/relaytest"
)

// With TLS, the relay connects to servers that its CA has signed, with a certificate that the servers ask for.
func TestTLS(t *testing.T) {
	t.Parallel()
	demand, certificate, key := relaytest.TLS(t)
	cluster := relaytest.New(t, 1, demand)
	url := strings.Replace(cluster.URL(), "nats://", "tls://", 1)
	for what, c := range map[string]struct {
		connection relay.Connection
		works      bool
	}{
		"all":            {relay.Connection{URL: url, CA: certificate, Certificate: certificate, Key: key}, true},
		"no CA":          {relay.Connection{URL: url, Certificate: certificate, Key: key}, false},
		"no certificate": {relay.Connection{URL: url, CA: certificate}, false},
	} {
		c.connection.Once = true
		conn, err := relay.Connect(t.Context(), c.connection)
		if (err == nil) != c.works {
			t.Errorf("%s: %v", what, err)
		}
		if err == nil {
			if _, err := conn.TLSConnectionState(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			conn.Close()
		}
	}
}
