package relay_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"novelgate/events/relay"
	"novelgate/events/relay/relaytest"
	"novelgate/internal/testdb"
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
		var conn *nats.Conn
		var err error
		testdb.Eventually(t, what, func() bool {
			conn, err = relay.Connect(t.Context(), c.connection)
			return err == nil || !c.works // on a busy machine, a handshake may take longer than an attempt
		})
		if err != nil {
			continue
		}
		if _, err := conn.TLSConnectionState(); err != nil || !c.works {
			t.Errorf("%s: connected, %v", what, err)
		}
		conn.Close()
	}
}
