package relay_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"novelgate/events/relay"
	"novelgate/events/relay/relaytest"
	"novelgate/internal/testdb"
)

// With TLS, the relay connects to servers that its CA has signed, with a certificate that the servers ask for.
func TestTLS(t *testing.T) {
	t.Parallel()
	// The certificate of httptest is valid for 127.0.0.1, and signed by itself.
	testServer := httptest.NewTLSServer(nil)
	testServer.Close()
	pair := testServer.TLS.Certificates[0]
	private := testdb.Must(x509.MarshalPKCS8PrivateKey(pair.PrivateKey))(t)
	dir := t.TempDir()
	certificate, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{
		certificate: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, key: {Type: "PRIVATE KEY", Bytes: private},
	} {
		testdb.NoError(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
	cluster := relaytest.New(t, 1, func(o *server.Options) {
		o.TLS, o.TLSTimeout = true, 30
		o.TLSConfig = &tls.Config{
			Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12,
		}
	})
	url := strings.Replace(cluster.URL(), "nats://", "tls://", 1)
	for what, c := range map[string]struct {
		connection relay.Connection
		works      bool
	}{
		"all":            {relay.Connection{URL: url, CA: certificate, Certificate: certificate, Key: key}, true},
		"no CA":          {relay.Connection{URL: url, Certificate: certificate, Key: key}, false},
		"no certificate": {relay.Connection{URL: url, CA: certificate}, false},
	} {
		conn := testdb.Must(relay.Connect(t.Context(), c.connection))(t) // has tried once
		if !c.works {
			if conn.IsConnected() {
				t.Errorf("%s: connected", what)
			}
			conn.Close()
			continue
		}
		// On a busy machine, a handshake may take longer than an attempt.
		testdb.Eventually(t, what, conn.IsConnected)
		if _, err := conn.TLSConnectionState(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		conn.Close()
	}
}
